"""Training a model of the world from recorded episodes: a run with a log, checkpoints, and a validation at its end.

The same command again goes on from the last checkpoint, and gives the same weights as if nothing had happened.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trilith.agents.dynamics.config import ModelConfig
from trilith.agents.dynamics.files import save_model
from trilith.agents.dynamics.learner import ModelLearner
from trilith.agents.dynamics.transitions import Transition, simulated, transitions
from trilith.agents.dynamics.world import ModelWorld
from trilith.agents.registry import load
from trilith.evaluation.dynamics import chains, compare, figures, nudge_error, report, tried_first
from trilith.networks.parameters import parameters_of
from trilith.search.agent import Valuer
from trilith.training.log import Log, cut_log
from trilith.utils.config import to_json
from trilith.utils.distributed.processes import limit_threads
from trilith.utils.files import atomic_write, clear_leftovers, folder_lock, make_folder, parse_json, read_json, write_json
from trilith.utils.tensors import load_tensors, save_tensors
from trilith.world.trajectory import Trajectory, read_dataset, read_episodes

CHECKPOINT, PREVIOUS = "checkpoint.safetensors", "previous.safetensors"
HELD_OUT = 10
"""One episode in so many is not learned from but validated on, unless other episodes are given for that."""
WATCHED = 500
"""Chains of placements that are validated on along the way."""


@dataclass(frozen=True)
class ModelRunConfig:
    """A training of a model."""

    data: tuple[Path, ...]
    """Folders of recorded episodes."""
    out: Path
    """Folder for the model, its log and its checkpoints."""
    valid: tuple[Path, ...] = ()
    """Folders of episodes to validate on, best of frozen scenes; without, a tenth of the others is kept for that."""
    seed: int = 0
    """Of the first weights and of which placements are drawn."""
    agent: str | None = None
    """An agent that values actions, on whose best placements the model is validated too: a search looks where the model errs."""
    log_steps: int = 250
    """Learner steps between lines of the log."""
    checkpoint_seconds: float = 60.0
    """Time between checkpoints."""
    model: ModelConfig = field(default_factory=ModelConfig)

    def __post_init__(self) -> None:
        if not self.data:
            raise ValueError("no data: name at least one folder of recorded episodes")
        if self.seed < 0:
            raise ValueError(f"seed {self.seed}: must be 0 or more")
        if self.log_steps < 1:
            raise ValueError(f"log steps {self.log_steps}: must be 1 or more")


def train_model(config: ModelRunConfig, screen: bool = True) -> dict[str, Any]:
    """Trains, validates, and returns the validation. Ctrl-C saves, and then raises KeyboardInterrupt.

    Raises ValueError or OSError in one line if the folder holds another training, or the data cannot be read.
    """
    limit_threads(1)
    identity = _identity(config)
    if config.agent is not None and not isinstance(load(config.agent), Valuer):
        raise ValueError(f"the agent {config.agent!r} does not value actions: choose a trained one")
    make_folder(config.out)
    with folder_lock(config.out):
        clear_leftovers(config.out)
        _take(config.out / "config.json", identity)
        run = _Run(config, identity)
        with Log(config.out, screen) as log:
            return run.go(log)


def _identity(config: ModelRunConfig) -> dict[str, Any]:
    """All that the weights and their validation depend on."""
    datasets = [{"folder": str(folder)} | read_dataset(folder) for folder in (*config.data, *config.valid)]
    return {"model": to_json(config.model), "seed": config.seed, "agent": config.agent, "learns": len(config.data), "data": datasets}


def _take(path: Path, identity: dict[str, Any]) -> None:
    """Writes what is trained, unless the folder holds something else."""
    if path.exists():
        found = read_json(path)
        for name, value in json.loads(json.dumps(identity)).items():
            if not isinstance(found, dict) or found.get(name) != value:
                raise ValueError(f"{path.parent} holds another training, with another {name}: choose another --out, or remove it")
    else:
        write_json(path, identity)


class _Run:
    """A training under way."""

    def __init__(self, config: ModelRunConfig, identity: dict[str, Any]) -> None:
        self.config, self.identity = config, identity
        self.learner = ModelLearner(config.model, config.seed)
        self.rng = np.random.default_rng(config.seed)
        self.seconds = 0.0
        path = config.out / CHECKPOINT
        if path.exists():
            arrays, texts = load_tensors(path)
            facts = parse_json(texts["facts"])
            self.learner.load(arrays, facts)
            self.rng.bit_generator.state = facts["rng"]
            self.seconds = facts["seconds"]
        cut_log(config.out, self.seconds, self.learner.steps)

    def go(self, log: Log) -> dict[str, Any]:
        """Trains what is left, and validates."""
        config, learner = self.config, self.learner
        log.say(f"reading {', '.join(map(str, config.data))}")
        learned, held_out = _episodes(config)
        table, watched = transitions(simulated(episode) for episode in learned), chains(held_out)
        tasks = sorted({episode.states[0].task for episode in learned})
        moved = table.moved.any(axis=1).mean()
        log.say(f"{len(table)} placements, of which {moved:.1%} move something and {table.hit.mean():.1%} touch an obstacle")
        sums: Counter[str] = Counter()
        begin, saved, first = time.monotonic() - self.seconds, time.monotonic(), learner.steps
        try:
            while learner.steps < config.model.steps:
                sums.update(learner.step(table, self.rng))
                self.seconds = time.monotonic() - begin
                if learner.steps % config.log_steps == 0 or learner.steps == config.model.steps:
                    self._tell(
                        log, {name: value / config.log_steps for name, value in sums.items()}, watched[:: max(len(watched) // WATCHED, 1)]
                    )
                    sums.clear()
                if time.monotonic() - saved > config.checkpoint_seconds:
                    self.save(tasks)
                    saved = time.monotonic()
        except KeyboardInterrupt:
            self.save(tasks)
            log.say(f"stopped and saved after {learner.steps} steps: the same command goes on from there")
            raise
        if learner.steps > first or not (config.out / "model.safetensors").exists():
            self.save(tasks)
        result_path = config.out / "validation.json"
        if not result_path.exists() or learner.steps > first:
            log.say("validating")
            write_json(result_path, self.validate(watched))
            draw_log(config.out)
        result: dict[str, Any] = read_json(result_path)
        return result

    def _tell(self, log: Log, means: dict[str, float], watched: list[list[Transition]]) -> None:
        learner, steps = self.learner, self.config.model.steps
        minutes = {"minutes": self.seconds / 60}
        log.write("train", learner.steps, means | minutes)
        now = figures([each for each in compare(ModelWorld(learner.net), [chain[:1] for chain in watched]) if each.depth == 1])
        now.pop("reliability", None)
        log.write("valid", learner.steps, now | minutes)
        left = self.seconds / learner.steps * (steps - learner.steps)
        pose = f", pose {now['pose']:.3f} m (falls only: {now['pose_base']:.3f})" if "pose" in now else ""
        log.show(
            f"step {learner.steps} of {steps}, {left:.0f} s left, loss {means['loss']:.3f}, end {now['brier'] / now['brier_constant']:.2f} "
            f"of the constant's Brier score, reward {now['reward_scored']:.2f} of its variance left{pose}"
        )

    def save(self, tasks: list[str]) -> None:
        """Writes a checkpoint, and the model as it is."""
        arrays, facts = self.learner.state()
        facts |= {"seconds": self.seconds, "rng": self.rng.bit_generator.state}
        out = self.config.out
        save_tensors(out / CHECKPOINT, arrays, {"facts": json.dumps(facts)}, previous=out / PREVIOUS)
        about = {
            "learning": to_json(self.config.model),
            "steps": self.learner.steps,
            "minutes": round(self.seconds / 60, 1),
            "data": [str(folder) for folder in self.config.data],
        }
        save_model(out, self.config.model.net, tasks, parameters_of(self.learner.net), about)

    def validate(self, watched: list[list[Transition]]) -> dict[str, Any]:
        """All figures: of what was recorded, of an agent's best placements, and of the simulator if it is nudged."""
        world = ModelWorld(self.learner.net)
        found: dict[str, Any] = {"recorded": report(world, watched), "nudge": {}}
        for task in found["recorded"]:
            found["nudge"][task] = nudge_error([chain for chain in watched if chain[0].state.task == task])
        if self.config.agent is not None:
            agent = load(self.config.agent)
            assert isinstance(agent, Valuer)
            states = [chain[0].state for chain in watched[:: max(len(watched) // 400, 1)]]
            found["first"] = {}
            for task in found["recorded"]:
                mine = tried_first(agent, [state for state in states if state.task == task])
                found["first"] |= report(world, mine)
        return found


def _episodes(config: ModelRunConfig) -> tuple[list[Trajectory], list[Trajectory]]:
    """The episodes to learn from, and those to validate on."""
    every = [episode for folder in config.data for episode in read_episodes(folder)]
    if config.valid:
        return every, [episode for folder in config.valid for episode in read_episodes(folder)]
    return [e for k, e in enumerate(every) if (k + 1) % HELD_OUT], every[HELD_OUT - 1 :: HELD_OUT]


def draw_log(folder: Path) -> None:
    """Draws what the log tells of the validation into curve.png."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lines = [parse_json(line) for line in (folder / "log.jsonl").read_bytes().splitlines()]
    valid = [line for line in lines if line["kind"] == "valid" and "brier" in line]
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, of in (("end", ("brier", "brier_constant")), ("pose", ("pose", "pose_base"))):
        points = [(line["step"], line[of[0]] / line[of[1]]) for line in valid if line.get(of[1])]
        axis.plot(*zip(*points, strict=True), label=name) if points else None
    for name in ("reward_scored", "reward_learned"):
        axis.plot([line["step"] for line in valid], [line[name] for line in valid], label=name.replace("_", ", "))
    axis.set(xlabel="learner steps", ylabel="error left, of that of knowing nothing", yscale="log")
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")
    with atomic_write(folder / "curve.png") as aside:
        figure.savefig(aside, dpi=120)
    plt.close(figure)
