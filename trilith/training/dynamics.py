"""Trains a transition model on recorded episodes: a run with a log, checkpoints, and a validation at its end.

The same command resumes from the last checkpoint. The weights are then the same as without the interruption.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
from matplotlib.figure import Figure

from trilith.agents.dynamics.config import ModelRunConfig
from trilith.agents.dynamics.files import save_model
from trilith.agents.dynamics.learner import ModelLearner
from trilith.agents.dynamics.transitions import simulated, transitions
from trilith.agents.dynamics.world import ModelWorld
from trilith.agents.registry import load
from trilith.evaluation.dynamics import chains, compare, figures, nudge_error, report, tried_first
from trilith.evaluation.schema import Count
from trilith.networks.parameters import parameters_of
from trilith.search.agent import Valuer
from trilith.training.checkpoint import NAME, PREVIOUS, Seconds
from trilith.training.log import Log, cut_log, read_log
from trilith.training.trackers import TensorBoard
from trilith.utils.checks import require
from trilith.utils.config import to_json
from trilith.utils.distributed.processes import limit_threads
from trilith.utils.files import (
    atomic_write,
    check_same,
    check_sealed,
    clear_leftovers,
    folder_lock,
    make_folder,
    parse_json,
    prefix_errors,
    read_json,
    sealed,
    typed,
    write_json,
)
from trilith.utils.tensors import MAX_CHECKPOINT, load_tensors, save_tensors
from trilith.world.trajectory import Trajectory, read_dataset, read_episodes

HELD_OUT = 10
"""One episode in this many is held out for validation, unless separate validation episodes are given."""
WATCHED = 500
"""A validation during training uses at least this many held-out placements and fewer than twice as many; all, if there are fewer."""


class Facts(TypedDict):
    """The values of a checkpoint that are not arrays."""

    steps: Count
    seconds: Seconds
    rng: dict[str, Any]


class Errors(TypedDict):
    """The fields of a validation that tables show. There are further fields; `trilith.evaluation.dynamics.figures` explains all."""

    placements: Count
    reward_scored: float
    reward_learned: float
    contacts: float
    overlaps: float
    brier: NotRequired[float]
    brier_constant: NotRequired[float]
    pose: NotRequired[float]
    pose_base: NotRequired[float]


Report = dict[str, dict[str, dict[str, Errors]]]
"""Maps a task to its levels, each level to its depths (`Compared.depth`), and each depth to errors. All keys are text."""


class Validation(TypedDict):
    """The fields of `validation.json`."""

    recorded: Report
    """Errors of the predictions for the recorded placements."""
    nudge: dict[str, float | None]
    """Maps a task to the error in metres that no prediction can avoid (`nudge_error`). None if it could not be measured."""
    first: NotRequired[Report]
    """Errors of the predictions for the placements that an agent values highest. Missing if no agent was given."""


def train_model(config: ModelRunConfig, screen: bool = True) -> dict[str, Any]:
    """Trains a transition model, validates it, and returns the validation. Ctrl-C saves a checkpoint and then raises KeyboardInterrupt.

    Raises ValueError or OSError if the folder holds a different training run, or if the data cannot be read.
    """
    limit_threads(1)
    datasets = [{"folder": str(folder)} | read_dataset(folder) for folder in (*config.data, *config.valid)]
    identity = {"model": to_json(config.model), "seed": config.seed, "agent": config.agent, "learns": len(config.data), "data": datasets}
    agent = None if config.agent is None else load(config.agent)
    if agent is not None and not isinstance(agent, Valuer):
        raise ValueError(f"the agent {config.agent!r} does not value actions: choose a trained one")
    make_folder(config.out)
    with folder_lock(config.out):
        clear_leftovers(config.out)
        path = config.out / "config.json"
        if not path.exists():
            write_json(path, identity)
        check_same(config.out, "a training", read_json(path, dict[str, Any]), json.loads(json.dumps(identity)))
        with Log(config.out, screen, TensorBoard(config.out)) as log:
            return _Run(config, agent, log).train()


class _Run:
    """The state of a training run of a transition model, and its loop."""

    def __init__(self, config: ModelRunConfig, agent: Valuer | None, log: Log) -> None:
        self.config, self.agent, self.log = config, agent, log
        self.learner = ModelLearner(config.model, config.seed)
        self.rng = np.random.default_rng(config.seed)
        self.seconds = 0.0
        path = config.out / NAME
        if path.exists():
            arrays, texts = load_tensors(path, MAX_CHECKPOINT)
            try:
                facts: Facts = parse_json(texts.get("facts", ""), Facts)
                require(facts["steps"] <= config.model.steps, f"{facts['steps']} steps, more than {config.model.steps}")
                self.learner.load(arrays, facts)
                self.rng.bit_generator.state, self.seconds = facts["rng"], facts["seconds"]
            except (TypeError, ValueError, LookupError, ArithmeticError) as error:  # the random generator raises these too
                raise ValueError(f"{path} is not the checkpoint of a model: {' '.join(str(error).split())}") from None
        cut_log(config.out, self.seconds, self.learner.steps)
        log.say(f"reading {', '.join(map(str, config.data))}")
        learned, held_out = _episodes(config)
        self.tasks = sorted({episode.states[0].task for episode in learned})
        self.table, self.held_out = transitions(simulated(episode) for episode in learned), chains(held_out)
        require(self.held_out, f"no placements to validate on: record {HELD_OUT} episodes or more, or name others with --valid")
        moved, hit = self.table["moved"].any(axis=1).mean(), self.table["hit"].mean()
        log.say(f"{len(self.table)} placements, of which {moved:.1%} move something and {hit:.1%} touch an obstacle")

    def train(self) -> dict[str, Any]:
        """Makes the remaining learner steps, then validates the model. Returns the validation."""
        config, learner, log = self.config, self.learner, self.log
        sums: Counter[str] = Counter()
        begin, saved, first = time.monotonic() - self.seconds, time.monotonic(), learner.steps
        reported = first
        try:
            while learner.steps < config.model.steps:
                sums.update(learner.step(self.table, self.rng))
                self.seconds = time.monotonic() - begin
                if learner.steps % config.log_steps == 0 or learner.steps == config.model.steps:
                    self._report({name: value / (learner.steps - reported) for name, value in sums.items()})
                    sums.clear()
                    reported = learner.steps
                if time.monotonic() - saved > config.checkpoint_seconds:
                    self.save()
                    saved = time.monotonic()
        except KeyboardInterrupt:
            self.save()
            log.say(f"stopped and saved after {learner.steps} steps: the same command resumes")
            raise
        if learner.steps > first or not (config.out / "model.safetensors").exists():
            self.save()
        path = config.out / "validation.json"
        if learner.steps > first or not path.exists():
            log.say("validating")
            write_json(path, sealed(self.validate()))
            draw_log(config.out)
        result: dict[str, Any] = read_json(path, dict[str, Any])
        check_sealed(path, result)
        with prefix_errors(f"{path} is not valid: "):
            typed(result, Validation)
        return result

    def _report(self, means: dict[str, float]) -> None:
        """Logs the mean losses `means`, and the errors of one-step predictions for some held-out placements (see `WATCHED`)."""
        learner, steps = self.learner, self.config.model.steps
        minutes = {"minutes": self.seconds / 60}
        self.log.write("train", learner.steps, means | minutes)
        watched = self.held_out[:: max(len(self.held_out) // WATCHED, 1)]
        now = figures(compare(ModelWorld(learner.net), [chain[:1] for chain in watched]))
        now.pop("reliability", None)
        self.log.write("valid", learner.steps, now | minutes)
        left = self.seconds / learner.steps * (steps - learner.steps)
        pose = f", pose {now['pose']:.3f} m (falls only: {now['pose_base']:.3f})" if "pose" in now else ""
        constant = now.get("brier_constant")
        end = f"end {now['brier'] / constant:.2f} of the constant's Brier score, " if constant else ""
        self.log.show(
            f"step {learner.steps} of {steps}, {left:.0f} s left, loss {means['loss']:.3f}, {end}"
            f"reward {now['reward_scored']:.2f} of its variance left{pose}"
        )

    def save(self) -> None:
        """Writes a checkpoint, and the current model."""
        config = self.config
        arrays, facts = self.learner.state()
        facts |= {"seconds": self.seconds, "rng": self.rng.bit_generator.state}
        save_tensors(config.out / NAME, arrays, {"facts": json.dumps(facts)}, previous=config.out / PREVIOUS)
        about = {
            "learning": to_json(config.model),
            "steps": self.learner.steps,
            "minutes": round(self.seconds / 60, 1),
            "data": [str(folder) for folder in config.data],
        }
        save_model(config.out, config.model.net, self.tasks, parameters_of(self.learner.net), about)

    def validate(self) -> dict[str, Any]:
        """Returns the full validation, with the keys of `Validation`."""
        world = ModelWorld(self.learner.net)
        recorded = report(world, self.held_out)
        nudges = {task: nudge_error([chain for chain in self.held_out if chain[0].state.task == task]) for task in recorded}
        found = {"recorded": recorded, "nudge": nudges}
        if self.agent is not None:
            states = [chain[0].state for chain in self.held_out[:: max(len(self.held_out) // 400, 1)]]
            found["first"] = {}
            for task in recorded:
                found["first"] |= report(world, tried_first(self.agent, [state for state in states if state.task == task]))
        return found


def _episodes(config: ModelRunConfig) -> tuple[list[Trajectory], list[Trajectory]]:
    """Returns two lists: the episodes to learn from, and the episodes to validate on."""
    every = [episode for folder in config.data for episode in read_episodes(folder)]
    if config.valid:
        return every, [episode for folder in config.valid for episode in read_episodes(folder)]
    return [e for k, e in enumerate(every) if (k + 1) % HELD_OUT], every[HELD_OUT - 1 :: HELD_OUT]


def draw_log(folder: Path) -> None:
    """Draws the logged validation errors of a run as curves, into the file curve.png of its folder. Errors of ends and of poses are divided
    by the error of their baseline."""
    curves = (
        ("end", "brier", "brier_constant"),
        ("pose", "pose", "pose_base"),
        ("reward, scored", "reward_scored", ""),
        ("reward, learned", "reward_learned", ""),
    )
    valid = [line | {"": 1} for line in read_log(folder) if line["kind"] == "valid" and "brier" in line]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    for label, error, constant in curves:
        points = [(line["step"], line[error] / line[constant]) for line in valid if error in line and line.get(constant)]
        axis.plot([step for step, _ in points], [share for _, share in points], label=label)
    axis.set(xlabel="learner steps", ylabel="error / error of the baseline", yscale="log")
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")
    with atomic_write(folder / "curve.png") as aside:
        figure.savefig(aside, dpi=120)
