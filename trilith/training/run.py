"""A run: `train` starts one, `resume` goes on with one. The loop that keeps learner and actors in step is here."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from errno import ENOENT
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trilith.agents.dqn.learner import DQNLearner
from trilith.agents.dqn.policy import make_layout, save_weights
from trilith.agents.replay import Replay
from trilith.builders.registry import has_planner
from trilith.evaluation.frozen import SIZES
from trilith.nets.qnet import QNet
from trilith.support.config import to_json
from trilith.support.files import alone, make_folder, write_json
from trilith.training import checkpoint
from trilith.training.actor import Order, Played
from trilith.training.config import CONFIG, TrainConfig, run_config
from trilith.training.curriculum import Curriculum, Schedule
from trilith.training.local import Actors, Inline, Processes, Weights, flat_weights, set_weights
from trilith.training.log import Log, cut_log
from trilith.world.scene import SLOTS
from trilith.world.tasks import get_task

RECENT = 200
"""Episodes that the reward of a log line is a mean of."""
AHEAD = 200
"""Learner steps' worth of episodes that actors may be ahead by, so that neither side waits for single messages."""
DEMONSTRATIONS = 2
"""Episodes of one order for demonstrations: they take as long as some fifty of a network's."""
FIRST_EPSILON = 1.0
"""Random actions an episode before learning starts, where the others are placements that overlap nothing."""
FREE: dict[str, Any] = {"out": Path(), "minutes": None, "steps": None, "actors": 0, "log_seconds": 1.0, "checkpoint_seconds": 1.0}
"""Fields of a config that may change when a run goes on, with any values."""
LENGTH_RATE = 0.02
"""Share of a new episode in the running mean of episode lengths."""


def train(config: TrainConfig, screen: bool = True) -> dict[str, Any]:
    """Trains and returns the last evaluation. Raises ValueError or OSError in one line if the run cannot start or go on.

    If the folder holds the same run it goes on, though it may end at another time or have other actors. With several seeds
    their runs come one after another, each in a folder of its own, and the result is that of the last.
    """
    several = [
        replace(config, seed=seed, seeds=1, out=config.out / f"seed{seed}") for seed in range(config.seed, config.seed + config.seeds)
    ]
    for each in several if config.seeds > 1 else [config]:
        run = Run(each)
        make_folder(each.out)
        with alone(each.out):
            _begin(run)
            result = run.go(screen)
        if run.stopped:
            break
    return result


def resume(config: TrainConfig, screen: bool = True) -> dict[str, Any]:
    """As `train`, but the run must have been begun: ValueError if there is nothing to go on from. `run_config` has its config."""
    path = config.out / checkpoint.NAME
    if not path.exists():
        raise ValueError(f"there is no checkpoint {path}: nothing to resume")
    return train(config, screen)


def _begin(run: Run) -> None:
    """Takes up the run that the folder holds, from its last checkpoint on, if any; ValueError if that is another one."""
    config, path = run.config, run.config.out / CONFIG
    if path.exists():
        there, here = (_flat(to_json(replace(each, **FREE))) for each in (run_config(config.out), config))
        other = [f"{name} {value}" for name, value in there.items() if value != here.get(name)]
        if other:
            raise ValueError(f"{config.out} holds another run, with {', '.join(other[:3])}: choose another folder")
        if (config.out / checkpoint.NAME).exists():
            run.load()
        else:  # killed before its first
            cut_log(config.out, -1, -1)
    write_json(path, to_json(config))


def _flat(data: dict[str, Any]) -> dict[str, Any]:
    """All fields of nested dictionaries, by the last part of their names."""
    parts = (_flat(value) if isinstance(value, dict) else {name: value} for name, value in data.items())
    return {name: value for part in parts for name, value in part.items()}


@dataclass
class _Evaluation:
    """An evaluation under way."""

    weights: Weights
    """Of the network that is evaluated."""
    steps: int
    """Learner steps it has had."""


def _tell_deaths(actors: Actors, log: Log) -> None:
    """Tells which actors died since it was last told."""
    for death in getattr(actors, "deaths", []):
        log.say(death)
    getattr(actors, "deaths", []).clear()


class Run:
    """The state of a run, and its loop."""

    def __init__(self, config: TrainConfig) -> None:
        self.config, agent = config, config.agent
        if agent.actions == "absolute" and (agent.first_demonstrations or agent.demonstrations):
            raise ValueError("the planner demonstrates relative actions: for absolute ones choose no demonstrations, nor first ones")
        if agent.amortise and not agent.search.budget:
            raise ValueError(f"amortise {agent.amortise} needs a search to learn from: choose a budget, or amortise 0")
        if agent.mirror and agent.actions == "absolute":
            raise ValueError("absolute actions cannot be mirrored: choose no mirror")
        if config.evaluate_scenes > SIZES["valid"]:
            raise ValueError(f"evaluate_scenes {config.evaluate_scenes}: there are {SIZES['valid']}")
        torch.set_num_threads(config.threads)
        task = get_task(config.task)
        self.planned = has_planner(config.task)
        """Whether there can be demonstrations."""
        layout = make_layout(agent, config.task, beyond=False)
        self.learner = DQNLearner(agent, layout, config.seed)
        tried = agent.search.budget if agent.amortise else 0
        self.replay = Replay(layout, agent.replay_mb, agent.discount, tried)
        self.shown = Replay(layout, agent.replay_mb, agent.discount, tried)
        """Demonstrations."""
        self.ordered = 0
        """Episodes of them that were ordered."""
        self.curriculum: Curriculum = Schedule(config.task, agent.curriculum_steps, agent.hardest_share)
        self.rng = np.random.default_rng([config.seed, 0x1EA27])
        self.orders = 0
        self.actor_steps = 0
        self.lengths = [float(SLOTS)] * len(task.levels)
        """Running mean of the length of episodes, a level each: the paper's estimate L̂ of an episode's typical length. At first as
        many steps as there are blocks to choose from."""
        self.seconds = 0.0
        """Training time before this process took over."""
        self.evaluated = 0
        """Learner step of the last evaluation ordered."""
        self.best = -np.inf
        self.last_valid: dict[str, Any] = {}
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.figures: dict[str, float] = {}
        """Running means of what the learner says of its steps."""
        self._valid: dict[int, _Evaluation] = {}
        """Evaluations under way, by the learner step that they were due at."""
        self.stopped = False
        """Whether it was told to stop before its time."""

    @property
    def by_chance(self) -> bool:
        """Whether episodes are still played by chance, to have something to learn from."""
        return self.actor_steps < self.config.agent.min_replay

    @property
    def epsilon(self) -> float:
        """Random actions an episode, about, at this moment."""
        return FIRST_EPSILON if self.by_chance else self.config.agent.epsilon

    # ---- the loop

    def go(self, screen: bool = True) -> dict[str, Any]:
        """Runs until the time or the steps are over, or Ctrl-C; saves; returns the last evaluation."""
        config = self.config
        stop = threading.Event()
        main = threading.current_thread() is threading.main_thread()
        before = {each: signal.signal(each, lambda *_: stop.set()) for each in (signal.SIGINT, signal.SIGTERM)} if main else {}
        actors: Actors = Processes(config.agent, config.task, config.actors) if config.actors else Inline(config.agent, config.task)
        try:
            with Log(config.out, screen) as log:
                if not self.planned and (config.agent.first_demonstrations or config.agent.demonstrations):
                    log.say(f"there is no planner for {config.task}: training without demonstrations")
                self._loop(actors, log, stop)
                self._save(log)
                if not stop.is_set():  # who presses Ctrl-C wants the run saved, not evaluated
                    self._finish(actors, log, stop)
                    self._save(log)
                self.stopped = stop.is_set()
                log.say(f"{'stopped' if self.stopped else 'done'} at learner step {self.learner.steps}: {config.out}")
        except OSError as error:
            why = f"cannot write to {error.filename or config.out}: {error.strerror}" if error.strerror else error
            raise ValueError(f"{why}; the last checkpoint is as it was") from None
        finally:
            actors.close()
            for each, handler in before.items():
                signal.signal(each, handler)
        return self.last_valid

    def _loop(self, actors: Actors, log: Log, stop: threading.Event) -> None:
        config, agent, learner = self.config, self.config.agent, self.learner
        started = time.monotonic() - self.seconds
        saved = logged = time.monotonic()
        counted = (logged, learner.steps, self.actor_steps)
        ahead = AHEAD if config.actors else 1
        while not stop.is_set():
            now = time.monotonic()
            self.seconds = now - started
            if config.minutes is not None and self.seconds >= 60 * config.minutes:
                break
            if config.steps is not None and learner.steps >= config.steps:
                break
            owed = agent.ratio * max(self.actor_steps - agent.min_replay, 0) - learner.steps
            while actors.idle() and (order := self._next_order(owed < ahead)):
                actors.send(order, flat_weights(self.learner.acting))
            if owed >= 1:
                for name, value in learner.learn(self.replay, self.rng, self.shown if len(self.shown) else None).items():
                    self.figures[name] = 0.99 * self.figures.get(name, value) + 0.01 * value
            for played in actors.receive(timeout=0.0 if owed >= 1 else 0.2):
                self._take(played, log)
            _tell_deaths(actors, log)
            if now - logged >= config.log_seconds:
                rates = [(new - old) / (now - counted[0]) for new, old in zip((learner.steps, self.actor_steps), counted[1:], strict=True)]
                self._log(log, rates)
                logged, counted = now, (now, learner.steps, self.actor_steps)
            if now - saved >= config.checkpoint_seconds:
                self._save(log)
                saved = time.monotonic()
        self.seconds = time.monotonic() - started

    def _next_order(self, wanted: bool) -> Order | None:
        """An order to play validation scenes if it is time for one, to play new episodes if they are wanted, or none."""
        config, step = self.config, self.learner.steps
        due = step - step % config.evaluate_every
        if config.evaluate_scenes and due > self.evaluated:
            return self._evaluation(due)
        agent = config.agent
        show = self.planned and self.ordered < agent.first_demonstrations + agent.demonstrations * step
        if not wanted and not show:
            if not (self.planned and config.actors and agent.demonstrations):
                return None
            show = True  # better than to wait for the learner
        self.orders += 1
        self.ordered += DEMONSTRATIONS * show
        levels = self.curriculum.levels(sys.maxsize if show else step)  # what is demonstrated need not be easy
        episodes = DEMONSTRATIONS if show else config.episodes
        seed, lengths = (config.seed, self.orders), tuple(self.lengths)
        return Order(seed, episodes, levels, self.epsilon, lengths, agent.search, agent.discount, show, self.by_chance, config.forfeit)

    def _evaluation(self, due: int) -> Order:
        """The order for an evaluation, whose weights are kept until it is known whether they are the best."""
        self.evaluated = due
        self._valid[due] = _Evaluation(flat_weights(self.learner.acting), self.learner.steps)
        return Order((self.config.seed, 0), self.config.evaluate_scenes, (), 0.0, (), forfeit=self.config.forfeit, valid=due)

    def _finish(self, actors: Actors, log: Log, stop: threading.Event) -> None:
        """Evaluates once more at the end, unless that has just been done; an evaluation under way is given up for it."""
        if not self.config.evaluate_scenes or (self.learner.steps == self.evaluated and not self._valid):
            return
        self._valid.clear()
        order: Order | None = self._evaluation(self.learner.steps)
        while self._valid and not stop.is_set():
            if order and actors.idle():
                actors.send(order, flat_weights(self.learner.acting))
                order = None
            for played in actors.receive(timeout=0.2):
                if played.order.valid is not None:
                    self._take(played, log)
            _tell_deaths(actors, log)

    def _take(self, played: Played, log: Log) -> None:
        """Remembers episodes, or what an evaluation gave."""
        if played.order.valid is not None:
            if evaluation := self._valid.pop(played.order.valid, None):
                self._evaluated(played.order.valid, evaluation, played.valid, log)
            return
        if played.order.demonstrate:
            for episode in played.episodes:
                self.shown.add(episode)
            return
        for episode in played.episodes:
            self.replay.add(episode)
            steps, reward = len(episode.actions), float(episode.rewards.sum())
            self.actor_steps += steps
            if not played.order.by_chance:  # those end where they explore, which says nothing of how long episodes are
                self.lengths[episode.level] += LENGTH_RATE * (steps - self.lengths[episode.level])
            self.curriculum.report(episode.level, reward, episode.best)
            self.recent.append(reward)

    # ---- care

    def _evaluated(self, step: int, evaluation: _Evaluation, means: dict[str, float], log: Log) -> None:
        self.last_valid = {"minutes": self.seconds / 60, "actor_steps": self.actor_steps, **means}
        log.write("valid", step, self.last_valid)
        log.say(f"step {step}: {means['hardest']:.2f} on the hardest validation scenes, {means['all']:.2f} on all")
        reward = means["hardest"] + means["all"]
        with self._kept(log):
            self._save_weights("last", self.learner.acting, self.learner.steps)
            if reward >= self.best:
                net = deepcopy(self.learner.acting)
                set_weights(net, evaluation.weights)
                self._save_weights("best", net, evaluation.steps)
                self.best = reward

    def _there(self) -> None:
        """Raises FileNotFoundError if the folder of the run has vanished: writing would make a new one, with but a part of the run."""
        if not (self.config.out / CONFIG).exists():
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(self.config.out))

    @contextmanager
    def _kept(self, log: Log) -> Iterator[None]:
        """What cannot be written is told, and the run goes on: what was written before is still there."""
        self._there()
        try:
            yield
        except OSError as error:
            self._there()
            log.say(f"{error}; what was there before still is, and training goes on")

    def _save_weights(self, name: str, net: QNet, steps: int) -> None:
        config = self.config
        card = {"recipe": config.recipe, "forfeit": config.forfeit, "seed": config.seed, "learner_steps": steps, "valid": self.last_valid}
        save_weights(config.out / f"{name}.safetensors", config.agent, config.task, net, card)

    def _log(self, log: Log, rates: list[float]) -> None:
        config, step = self.config, self.learner.steps
        levels = self.curriculum.levels(step)
        top = max(i for i, p in enumerate(levels) if p > 0)
        reward = float(np.mean(self.recent)) if self.recent else 0.0
        log.write(
            "train",
            step,
            {
                "minutes": self.seconds / 60,
                "actor_steps": self.actor_steps,
                "level": top,
                "reward": reward,
                "epsilon": self.epsilon / max(self.lengths[top], 1),
                "episode_length": self.lengths[top],
                "learner_steps_per_second": rates[0],
                "actor_steps_per_second": rates[1],
                **self.figures,
            },
        )
        left = []
        if config.minutes is not None:
            left.append(config.minutes * 60 - self.seconds)
        if config.steps is not None and rates[0] > 0:
            left.append((config.steps - step) / rates[0])
        eta = f"{min(left) / 60:.0f} min left" if left else "no end set"
        log.show(
            f"{config.task} step {step} · level {top} · reward {reward:.2f} · ε {self.epsilon / max(self.lengths[top], 1):.3f} · "
            f"loss {self.figures.get('loss', 0.0):.3f} · {rates[0]:.1f} learner and {rates[1]:.0f} actor steps/s · {eta}"
        )

    def _save(self, log: Log) -> None:
        """Writes the full checkpoint."""
        facts = {
            "step": self.learner.steps,
            "orders": self.orders,
            "actor_steps": self.actor_steps,
            "ordered": self.ordered,
            "lengths": self.lengths,
            "seconds": self.seconds,
            "evaluated": min((due - 1 for due in self._valid), default=self.evaluated),  # who goes on makes those under way anew
            "best": None if np.isinf(self.best) else self.best,
            "last_valid": self.last_valid,
            "recent": list(self.recent),
            "figures": self.figures,
            "curriculum": self.curriculum.state(),
            "rng": self.rng.bit_generator.state,
        }
        arrays = checkpoint.learner_arrays(self.learner) | {f"replay.{name}": a for name, a in self.replay.state().items()}
        arrays |= {f"shown.{name}": a for name, a in self.shown.state().items()}
        with self._kept(log):
            checkpoint.save(self.config.out / checkpoint.NAME, arrays, facts)
            self._save_weights("last", self.learner.acting, self.learner.steps)

    def load(self) -> None:
        """Takes back the last checkpoint. Raises ValueError in one line if it cannot be used."""
        arrays, facts = checkpoint.load(self.config.out / checkpoint.NAME)
        checkpoint.load_learner(self.learner, arrays)
        try:
            for name, memory in (("replay.", self.replay), ("shown.", self.shown)):
                memory.load({key.removeprefix(name): a for key, a in arrays.items() if key.startswith(name)})
            self.ordered = facts["ordered"]
            self.learner.steps, self.orders, self.actor_steps = facts["step"], facts["orders"], facts["actor_steps"]
            self.lengths, self.seconds, self.evaluated = facts["lengths"], facts["seconds"], facts["evaluated"]
            self.best = -np.inf if facts["best"] is None else facts["best"]
            self.last_valid = facts["last_valid"]
            self.recent.extend(facts["recent"])
            self.figures = facts.get("figures", {})  # older ones have none
            self.curriculum.load(facts["curriculum"])
            self.rng.bit_generator.state = facts["rng"]
        except KeyError as error:
            raise ValueError(f"the checkpoint in {self.config.out} lacks {error}") from None
        cut_log(self.config.out, self.learner.steps, self.evaluated)
