"""A training run: `train` starts it, and `resume` continues it. The loop sends requests to actors, passes their episodes to the learner,
and writes logs and checkpoints."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, replace
from math import isfinite
from typing import Any

import numpy as np

from trilith.agents.algorithms import get_algorithm
from trilith.agents.base import LearnsFromCorrections, LearnsModel, Weights
from trilith.agents.dynamics.files import save_model
from trilith.agents.weights import is_pair, save_weights
from trilith.evaluation.scene_sets import SIZES
from trilith.training import checkpoint
from trilith.training.actor import AssessRequest, CorrectRequest, PlayRequest, Request, Result, ValidateRequest
from trilith.training.actor_pool import Actors, Inline, PolicySpec, actor_processes, cluster_actors
from trilith.training.config import CONFIG, TrainConfig, differences, run_config
from trilith.training.curriculum import CURRICULA, Curriculum
from trilith.training.log import Log, cut_log
from trilith.training.pace import Pace
from trilith.training.trackers import TensorBoard, Wandb, check_wandb
from trilith.utils.checks import require, shortened
from trilith.utils.config import to_json
from trilith.utils.distributed.processes import catch_signals, limit_threads
from trilith.utils.distributed.ray_cluster import Cluster
from trilith.utils.files import clear_leftovers, folder_lock, make_folder, write_json
from trilith.utils.seeds import seed_folder

RECENT = 200
"""The reward in a line of the log is the mean over the last episodes, at most this many."""
CORRECTIONS = 8
"""Number of episodes in one request for corrections."""


def train(config: TrainConfig[Any], screen: bool = True) -> dict[str, Any]:
    """Trains an agent and returns the last evaluation. Raises ValueError or OSError if the run cannot start or resume.

    Ctrl-C (or SIGTERM) saves the run and then raises KeyboardInterrupt. If the folder already holds this run, it is resumed; only the
    fields in `training.config.FREE` may then differ. Several seeds are trained one after another, each in its own folder, and the
    evaluation of the last seed is returned.
    """
    several = [
        replace(config, seed=seed, seeds=1, out=seed_folder(config.out, seed)) for seed in range(config.seed, config.seed + config.seeds)
    ]
    for each in several if config.seeds > 1 else [config]:
        run = Run(each)
        make_folder(each.out)
        with folder_lock(each.out):
            clear_leftovers(each.out)
            _begin(run)
            result = run.go(screen)
        if run.stopped:
            raise KeyboardInterrupt  # the run is saved; after Ctrl-C no further seed is trained
    return result


def resume(config: TrainConfig[Any], screen: bool = True) -> dict[str, Any]:
    """Does the same as `train`, but raises ValueError if there is no run to resume. `run_config` reads the config of a run."""
    path = config.out / checkpoint.NAME
    require(path.exists(), f"there is no checkpoint {path}: nothing to resume")
    return train(config, screen)


def _begin(run: Run) -> None:
    """Prepares a run in its folder. If the folder already holds this run, resumes from the last checkpoint. Raises ValueError if the folder
    holds a different run."""
    config, path = run.config, run.config.out / CONFIG
    if path.exists():
        other = differences(run_config(config.out), config)
        require(not other, f"{config.out} holds another run, with {', '.join(other[:3])}: choose another folder")
        if (config.out / checkpoint.NAME).exists():
            run.load()
        else:  # the run was killed before its first checkpoint
            cut_log(config.out, -1, -1)
    write_json(path, to_json(config))


def _finite(metrics: Any) -> dict[str, float]:
    """The metrics of a learner step that are finite, because JSON has no infinite numbers. Raises ValueError if `metrics` is not a
    dictionary of numbers, since a user's learner may return anything."""
    require(isinstance(metrics, Mapping), f"a step of the learner returned {shortened(metrics)}: it must return a dictionary of numbers")
    found = {}
    for name, value in metrics.items():
        try:
            if isfinite(value):
                found[name] = float(value)
        except (TypeError, ValueError, ArithmeticError, RuntimeError):  # of Python, numpy and torch
            raise ValueError(f"the learner's figure {name!r} is {shortened(value)}: it must be a number") from None
    return found


class Run:
    """The state of a run, and its loop. It uses only the interfaces `Learner` and `Policy`, so it works for any algorithm."""

    def __init__(self, config: TrainConfig[Any]) -> None:
        self.config = config
        require(config.evaluate_scenes <= SIZES["valid"], f"evaluate_scenes {config.evaluate_scenes}: there are {SIZES['valid']}")
        if config.track:
            check_wandb()
        limit_threads(config.threads)
        self.cluster: Cluster | None = None
        if config.cluster and config.learner_gpus:  # before the learner looks for GPUs
            self.cluster = Cluster(config.cluster)
            self.cluster.reserve_gpus(config.learner_gpus)
        self.learner = get_algorithm(config.algorithm).make_learner(config.agent, config.task, config.seed, config.device)
        self.curriculum: Curriculum = CURRICULA[config.curriculum.kind](config.task, config.curriculum)
        self.rng = np.random.default_rng([config.seed, 0x1EA27])
        self.facts = checkpoint.Facts(rng={**self.rng.bit_generator.state})
        self.corrections = 0
        """Number of corrections requested so far."""
        self._validations: dict[int, tuple[int, Weights]] = {}
        """The validations that have no answer yet. A key is the learner step at which the validation was due. Its value is (learner step of
        the validated weights, these weights)."""
        self._assessing = False
        """Whether a request for an assessment (`AssessRequest`) was sent and has no answer yet."""
        self.pace = Pace()
        self._weights: tuple[int, Weights] = (-1, {})
        """Two values: the learner step of the weights that were last sent to actors, and these weights."""
        self._mark = checkpoint.mark(config.out)
        """Identifies the checkpoint that this run last read or wrote, see `checkpoint.mark`."""
        self.stopped = False
        """Whether Ctrl-C or SIGTERM stopped the run."""

    # ---- the loop

    def go(self, screen: bool = True) -> dict[str, Any]:
        """Trains until a limit is reached (time or steps), then validates the final weights; or until Ctrl-C. Saves the run, and returns
        the last evaluation. Raises ValueError if a file cannot be written."""
        config = self.config
        with ExitStack() as opened:
            # This comes before signals are handled, so that Ctrl-C also ends the wait for a cluster or for wandb.
            others = [Wandb(config.out, to_json(config), screen)] if config.track else []
            actors = self._start_actors(opened)
            try:
                with (
                    catch_signals(signal.SIGINT, signal.SIGTERM) as stop,
                    opened,  # closed before Ctrl-C gets its usual effect back
                    Log(config.out, screen, TensorBoard(config.out), *others) as log,
                ):
                    self._run(actors, log, stop)
            except OSError as error:
                why = f"cannot write to {error.filename or config.out}: {error.strerror}" if error.strerror else error
                raise ValueError(f"{why}; {self._left()}") from None
        return self.facts.last_valid

    def _start_actors(self, opened: ExitStack) -> Actors:
        """Starts the actors. They and their cluster are registered with the exit stack `opened`, which closes them at the end."""
        config = self.config
        spec = PolicySpec(config.algorithm, config.agent, config.task, config.zero_on_hit)
        if not config.actors:
            return Inline(spec)
        if not config.cluster:
            return opened.enter_context(closing(actor_processes(spec, config.actors)))
        self.cluster = self.cluster or Cluster(config.cluster)
        opened.callback(self.cluster.close)
        return opened.enter_context(closing(cluster_actors(self.cluster, spec, config.actors, config.actor_cpus)))

    def _run(self, actors: Actors, log: Log, stop: threading.Event) -> None:
        config = self.config
        if config.actors:
            where = f"actors on the cluster {config.cluster}" if self.cluster else "actor processes"
            log.say(f"starting {config.actors} {where}; the first start after an update compiles for some seconds")
        self._loop(actors, log, stop)
        if not self.learner.steps and not stop.is_set():
            missing = self.learner.warmup_status() or "it had nothing to learn from yet"
            log.say(f"it ended before the first learner step ({missing}): give it more --minutes, and the same command resumes")
        self._save(log)
        if not stop.is_set():  # after Ctrl-C the run is saved, but not evaluated
            self._finish(actors, log, stop)
            self._save(log)
        self.stopped = stop.is_set()
        log.say(f"{'stopped' if self.stopped else 'done'} at learner step {self.learner.steps}: {config.out}")

    def _send(self, actors: Actors, request: Request) -> None:
        """Sends a request with the current weights. All requests of one learner step share the same weights object, so a cluster
        transfers it only once."""
        if self._weights[0] != self.learner.steps:
            self._weights = (self.learner.steps, self.learner.policy.weights())
        if isinstance(request, PlayRequest):
            self.pace.sent(request.seed[1], time.monotonic())
        actors.send(request, self._weights[1])

    def _loop(self, actors: Actors, log: Log, stop: threading.Event) -> None:
        config, learner, facts = self.config, self.learner, self.facts
        started, cores = time.monotonic() - facts.seconds, time.process_time()
        saved = logged = time.monotonic()
        counted = (logged, learner.steps, facts.actor_steps)
        while not stop.is_set():
            now, used = time.monotonic(), time.process_time()
            facts.seconds = now - started
            facts.core_seconds += used - cores
            cores = used
            if any(done >= limit for done, limit in self._limits()):
                break
            due = learner.updates_due()
            while actors.idle() and (request := self._next_request(self.pace.wants(due) if config.actors else due < 1)):
                self._send(actors, request)
            if due >= 1:
                for name, value in _finite(learner.step(self.rng)).items():
                    facts.figures[name] = 0.99 * facts.figures.get(name, value) + 0.01 * value
                self.pace.stepped(time.monotonic() - now)
            self._receive(actors, log, 0.0 if due >= 1 else 0.2)
            if now - logged >= config.log_seconds:
                rates = [(new - old) / (now - counted[0]) for new, old in zip((learner.steps, facts.actor_steps), counted[1:], strict=True)]
                self._log(log, *rates)
                logged, counted = now, (now, learner.steps, facts.actor_steps)
            if now - saved >= config.checkpoint_seconds:
                self._save(log)
                saved = time.monotonic()
        facts.seconds = time.monotonic() - started

    def _limits(self) -> list[tuple[float, float]]:
        """Returns (spent so far, limit) for each limit that the config sets. There may be limits of minutes, of core-minutes and of learner
        steps."""
        config, facts = self.config, self.facts
        limits = (
            (facts.seconds / 60, config.minutes),
            (facts.core_seconds / 60, config.core_minutes),
            (self.learner.steps, config.steps),
        )
        return [(done, limit) for done, limit in limits if limit is not None]

    def _next_request(self, wanted: bool) -> Request | None:
        """Returns the next request for the actors. It is for a validation or an assessment if one is due, otherwise for corrections if the
        learner wants them, otherwise for new episodes if `wanted` is True. Returns None if none of these is needed now."""
        config, learner, facts = self.config, self.learner, self.facts
        due = learner.steps - learner.steps % config.evaluate_every
        if config.evaluate_scenes and due > facts.validated:
            return self._validation(due)
        assess = not self._assessing and self.curriculum.due(facts.actor_steps, config.episodes)
        correct = isinstance(learner, LearnsFromCorrections) and learner.wants_correction(self.corrections)
        if not (wanted or correct or assess):
            return None
        facts.requests += 1
        seed, levels = (config.seed, facts.requests), self.curriculum.levels(learner.steps)
        if assess:
            self._assessing = True
            return AssessRequest(seed, config.episodes, levels, config.zero_on_hit)
        if correct:
            self.corrections += CORRECTIONS
            return CorrectRequest(seed, CORRECTIONS, self.curriculum.final(), config.zero_on_hit)
        return PlayRequest(seed, config.episodes, levels, config.zero_on_hit, learner.exploration())

    def _validation(self, due: int) -> ValidateRequest:
        """Returns the request for the validation that was due at the learner step `due`. Keeps a copy of the current weights until the
        result shows whether they are the best so far."""
        self.facts.validated = due
        self._validations[due] = self.learner.steps, self.learner.policy.weights()
        return ValidateRequest(due, self.config.evaluate_scenes, self.config.zero_on_hit)

    def _finish(self, actors: Actors, log: Log, stop: threading.Event) -> None:
        """Validates the final weights, unless this was done already. Drops other validations that are not yet answered."""
        if not self.config.evaluate_scenes or (self.learner.steps == self.facts.validated and not self._validations):
            return
        self._validations.clear()
        request: Request | None = self._validation(self.learner.steps)
        while self._validations and not stop.is_set():
            if request and actors.idle():
                self._send(actors, request)
                request = None
            self._receive(actors, log, 0.2, ValidateRequest)

    def _receive(self, actors: Actors, log: Log, timeout: float, kind: type = object) -> None:
        """Receives results. Handles those whose request is of the type `kind`, and drops the others. Logs the notes of the pool of actors,
        for instance that an actor died. `timeout` is the longest wait in seconds."""
        for result in actors.receive(timeout):
            if isinstance(result.request, kind):
                self._take(result, log)
        for note in actors.notes:
            log.say(note)
        actors.notes.clear()

    def _take(self, result: Result, log: Log) -> None:
        """Handles a result: passes episodes to the learner, or stores the rewards of a validation or an assessment."""
        facts, learner, request = self.facts, self.learner, result.request
        facts.core_seconds += result.cpu_seconds
        facts.simulated = facts.simulated.plus(result.simulated)
        if isinstance(request, ValidateRequest):
            if validation := self._validations.pop(request.step, None):
                self._validated(request.step, *validation, result.rewards, log)
            return
        if isinstance(request, AssessRequest):
            self._assessing = False
            level = self.curriculum.top(learner.steps)
            if self.curriculum.report(result.assessed):
                log.say(f"step {learner.steps}: level {level} is passed")
            return
        due = learner.updates_due()
        for episode in result.episodes:
            learner.add(episode)
            if not episode.correction:
                facts.actor_steps += len(episode.steps)
                facts.recent.append(float(episode.steps["reward"].sum()))
        del facts.recent[:-RECENT]
        if isinstance(request, CorrectRequest):
            facts.corrections += request.episodes
        else:
            self.pace.taken(request.seed[1], time.monotonic(), learner.updates_due() - due)

    # ---- logs, weights and checkpoints

    def _validated(self, due: int, steps: int, weights: Weights, means: dict[str, float], log: Log) -> None:
        facts = self.facts
        facts.last_valid = {**self._spent(), **means}
        log.write("valid", due, facts.last_valid)
        log.say(f"step {due}: {means['hardest']:.2f} on the hardest validation scenes, {means['all']:.2f} on all")
        reward = means["hardest"] + means["all"]
        with self._kept(log):
            self._save_weights("last", self.learner.policy.weights(), self.learner.steps)
            if facts.best is None or reward >= facts.best:
                self._save_weights("best", weights, steps)
                facts.best = reward

    def _spent(self) -> dict[str, float]:
        """Maps names to what the run has spent so far: minutes, core_minutes, actor_steps, simulator_steps, and simulated_NAME for each
        count NAME in `Simulated`."""
        facts = self.facts
        simulated = {f"simulated_{name}": count for name, count in asdict(facts.simulated).items()}
        minutes = {"minutes": facts.seconds / 60, "core_minutes": facts.core_seconds / 60}
        return {**minutes, "actor_steps": facts.actor_steps, "simulator_steps": facts.simulated.total, **simulated}

    def _left(self) -> str:
        """Describes the state of the checkpoint, for the error message of a run that failed."""
        mark = checkpoint.mark(self.config.out)
        if mark is None:
            return "there is no checkpoint"
        return "the last checkpoint is as it was" if mark == self._mark else "the checkpoint that is there now is not of this process"

    @contextmanager
    def _kept(self, log: Log) -> Iterator[None]:
        """Context manager: if writing a file in the `with` block fails, logs the error and lets the run continue, because the old file is
        still there.

        Raises FileNotFoundError if the folder of the run has been deleted. Without this check, a new folder with only a part of the run
        would be made.
        """
        config = self.config.out / CONFIG
        config.stat()
        try:
            yield
        except OSError as error:
            config.stat()
            log.say(f"{error}; the old file is kept, and training continues")

    def _save_weights(self, name: str, weights: Weights, steps: int) -> None:
        config = self.config
        about = {
            "recipe": config.recipe,
            "zero_on_hit": config.zero_on_hit,
            "seed": config.seed,
            "learner_steps": steps,
            "valid": self.facts.last_valid,
            "spent": self._spent(),
        }
        save_weights(config.out / f"{name}.safetensors", config.algorithm, config.agent, config.task, weights, about)

    def _log(self, log: Log, learner_rate: float, actor_rate: float) -> None:
        """Writes a line of the log. The two rates are in steps per second."""
        config, step, facts = self.config, self.learner.steps, self.facts
        top, assessed = self.curriculum.top(step), self.curriculum.figures()
        reward = float(np.mean(facts.recent)) if facts.recent else 0.0
        rates = {"learner_steps_per_second": learner_rate, "actor_steps_per_second": actor_rate}
        log.write("train", step, {**self._spent(), "level": top, "reward": reward, **rates, **assessed, **facts.figures})
        left = [facts.seconds * (limit / done - 1) for done, limit in self._limits() if done]
        eta = f"{min(left) / 60:.0f} min left" if left else "no end set"
        if not step and (waiting := self.learner.warmup_status()):
            log.show(f"{config.task} · {waiting} · {eta}")
            return
        passed = f" ({assessed['groups_passed']:.0%} of groups passed)" if assessed else ""
        log.show(
            f"{config.task} step {step} · level {top}{passed} · reward {reward:.2f} · "
            f"loss {facts.figures.get('loss', 0.0):.3f} · {learner_rate:.1f} learner and {actor_rate:.0f} actor steps/s · {eta}"
        )

    def _save(self, log: Log) -> None:
        """Writes the full checkpoint and the last weights. If the learner has learned a transition model, writes this model too."""
        arrays, learner = self.learner.state()
        # A resumed run requests the validations under way again.
        validated = min((due - 1 for due in self._validations), default=self.facts.validated)
        rng = {**self.rng.bit_generator.state}
        facts = replace(self.facts, learner=learner, curriculum=self.curriculum.state(), rng=rng, validated=validated)
        with self._kept(log):
            checkpoint.save(self.config.out / checkpoint.NAME, arrays, facts)
            self._mark = checkpoint.mark(self.config.out)
            self._save_weights("last", self.learner.policy.weights(), self.learner.steps)
            if isinstance(self.learner, LearnsModel) and (model := self.learner.learned_model()):
                about = {**model.about, "minutes": round(facts.seconds / 60, 1)}
                save_model(self.config.out, model.net, [self.config.task], model.weights, about)

    def load(self) -> None:
        """Restores the last checkpoint. Raises ValueError if it cannot be used."""
        path = self.config.out / checkpoint.NAME
        arrays, facts = checkpoint.load(path)
        try:
            self.learner.load(arrays, facts.learner)
            self.curriculum.load(facts.curriculum)
            self.rng.bit_generator.state = facts.rng
        except KeyError as error:
            raise ValueError(f"the checkpoint {path} lacks {error}") from None
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:  # a user's algorithm may raise these
            raise ValueError(f"the checkpoint {path} is of another run: {' '.join(str(error).split())}") from None
        self.facts, self.corrections = facts, facts.corrections
        # If the process was killed between two renames, the best weights and their card do not belong together. The next validation
        # replaces them.
        if not is_pair(self.config.out / "best.safetensors"):
            facts.best = None
        cut_log(self.config.out, facts.seconds, facts.validated)
