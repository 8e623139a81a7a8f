"""The overhead of actors on a cluster, and how many actors one learner can use.

    python benchmarks/cluster.py sizes                      # bytes and times of messages
    python benchmarks/cluster.py pair --seconds 60          # --cluster local --actors 1 against --actors 1, in turns
    python benchmarks/cluster.py many --seconds 60          # a real learner and 128 simulated actors

Simulated actors sleep for the time that steps with ten simulations take here (measured first), and return real episodes. So learner,
pace, messages and object store work as with 128 cores.
"""

from __future__ import annotations

import json
import os
import pickle
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import simulated
import tyro
from tyro.conf import Positional

from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dqn.policy import Exploration
from trilith.agents.dqn.recipes import OBJECTS
from trilith.search.config import SearchConfig
from trilith.training.actor import PlayRequest, Result, collect
from trilith.training.actor_pool import PolicySpec
from trilith.training.config import TrainConfig
from trilith.training.run import Run, train
from trilith.utils.distributed.pool import Job
from trilith.utils.distributed.processes import limit_threads
from trilith.utils.distributed.ray_cluster import Cluster
from trilith.utils.distributed.ray_pool import RayPool


@dataclass
class Options:
    """Benchmark actors on a cluster."""

    part: Positional[Annotated[Literal["sizes", "pair", "many"], tyro.conf.arg(metavar="sizes|pair|many")]]
    task: str = "covering_hard"
    seconds: float = 60.0
    """Duration of each training in seconds."""
    rounds: int = 3
    """pair: number of trainings of each kind."""
    actors: int = 128
    """many: number of simulated actors."""
    per_process: int = 16
    """many: number of simulated actors in each process."""
    step_ms: float | None = None
    """many: milliseconds per step of a simulated actor; by default those measured with ten simulations."""
    episodes: int = 32
    """Number of episodes per request."""


PLAIN: DQNConfig = replace(OBJECTS, corrections_per_update=0.0, replay_mb=20.0)
"""As `objects`, but without corrections, so that all requests are alike, and with a small replay, so that memory soon stops growing."""
SEARCHING: DQNConfig = replace(PLAIN, search=SearchConfig(budget=10, algorithm="halving"), counterfactual_actions=0, updates_per_step=0.2)
"""As `PLAIN`, but actors search. Their steps take longer, so there are fewer actor steps for each learner step."""


def played(agent: DQNConfig, options: Options, count: int, warm_up: bool) -> tuple[Result, float]:
    """Plays `count` episodes with untrained weights. Returns them and the mean seconds per step."""
    limit_threads(1)
    policy = PolicySpec("dqn", agent, options.task).make()
    levels = Run(_config(agent, options, Path())).curriculum.final()
    request = PlayRequest((0, 1), count, levels, False, Exploration(0.3, (4.0,) * len(levels), warm_up))
    collect(policy, options.task, replace(request, episodes=1))  # compiles
    begin = time.process_time()  # with one thread the same as time, but for what else the machine does
    result = collect(policy, options.task, request)
    return result, (time.process_time() - begin) / sum(len(each.steps) for each in result.episodes)


def _config(agent: DQNConfig, options: Options, out: Path, **others: Any) -> TrainConfig[DQNConfig]:
    given = {"minutes": options.seconds / 60, "episodes": options.episodes, "evaluate_scenes": 0, "log_seconds": 2.0, **others}
    return TrainConfig(task=options.task, recipe="objects", out=out, agent=agent, **given)


# ---- the parts


def sizes(options: Options) -> None:
    """Prints the bytes of a request, weights and a transition, and the driver's requests per second."""
    for name, agent in (("model-free", PLAIN), ("budget 10", SEARCHING)):
        result, step = played(agent, options, options.episodes, warm_up=False)
        weights = PolicySpec("dqn", agent, options.task).make().weights()
        transitions = sum(len(each.steps) for each in result.episodes)
        print(f"{name}: {1e3 * step:.2f} ms an actor step; {transitions / len(result.episodes):.1f} steps an episode")
        print(f"  request {len(pickle.dumps(result.request)):,} bytes, without weights")
        print(f"  weights {sum(each.nbytes for each in weights.values()):,} bytes")
        answer = len(pickle.dumps(result))
        print(f"  result {answer:,} bytes with {transitions} transitions: {answer / transitions:,.0f} a transition")
        learner = Run(_config(agent, options, Path())).learner
        for episode in result.episodes * (1 + agent.learning_starts // transitions):
            learner.add(episode)
        rng = np.random.default_rng(0)
        learner.step(rng)
        times = []
        for _ in range(30):
            begin = time.process_time()
            learner.step(rng)
            times.append(time.process_time() - begin)
        print(f"  learner step {1e3 * float(np.median(times)):.1f} ms on one thread")
    cluster = Cluster("local")
    try:
        begin = time.monotonic()
        for _ in range(50):
            cluster.ray.put(weights)
        print(f"a version of weights into the object store: {1e3 * (time.monotonic() - begin) / 50:.2f} ms")
        pool = RayPool(cluster, partial(simulated.make, result.episodes, 0.0), 2, 1.0, concurrency=8)
        while pool.ready()[0] < 2:
            pool.receive(timeout=0.5)
        done = sent = 0
        begin = time.monotonic()
        while time.monotonic() - begin < 10:
            while pool.idle():
                sent += 1
                pool.send((sent, options.episodes), weights)
            done += len(pool.receive(timeout=0.2))
        rate = done / (time.monotonic() - begin)
        print(f"requests through driver, store and two workers that do nothing: {rate:.0f} a second")
        pool.close()
    finally:
        cluster.close()


def pair(options: Options) -> None:
    """Compares a training with one actor process to one with an actor on a local cluster, in turns."""
    rates: dict[str, list[tuple[float, float]]] = {"embedded": [], "cluster": []}
    for _ in range(options.rounds):
        for name, cluster in (("embedded", None), ("cluster", "local")):
            with tempfile.TemporaryDirectory() as folder:
                train(_config(replace(PLAIN, learning_starts=500), options, Path(folder) / "run", actors=1, cluster=cluster), screen=False)
                lines = [json.loads(line) for line in (Path(folder) / "run" / "log.jsonl").read_text().splitlines()]
            learning = [line for line in lines if line["step"]]
            if len(learning) < 4:
                raise SystemExit(f"{options.seconds:g} s are too few: the learner had hardly begun; give it more --seconds")
            first, last = learning[len(learning) // 4], learning[-1]
            seconds = 60 * (last["minutes"] - first["minutes"])
            rates[name].append(((last["step"] - first["step"]) / seconds, (last["actor_steps"] - first["actor_steps"]) / seconds))
            print(f"{name:>8}: {rates[name][-1][0]:.1f} learner and {rates[name][-1][1]:.0f} actor steps/s", flush=True)
    for k, what in enumerate(("learner", "actor")):
        ratios = [there[k] / here[k] for here, there in zip(rates["embedded"], rates["cluster"], strict=True)]
        print(f"{what} steps/s, cluster / embedded: median {np.median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}")


class SimulatedActors(RayPool):
    """A pool of simulated actors on a cluster."""

    def __init__(self, cluster: Cluster, episodes: list[Any], step_seconds: float, actors: int, per_process: int) -> None:
        processes = -(-actors // per_process)
        cpus = (os.cpu_count() or 1) / processes
        make = partial(simulated.make, episodes, step_seconds)
        super().__init__(cluster, make, processes, cpus, concurrency=per_process, what="actor")
        self._asked: dict[int, PlayRequest] = {}

    def send(self, job: Any, shared: Any = None) -> Job:
        assert isinstance(job, PlayRequest)
        self._asked[job.seed[1]] = job
        return super().send((job.seed[1], job.episodes), shared)

    def receive(self, timeout: float) -> list[Any]:
        results = []
        for number, episodes in super().receive(timeout):
            request = self._asked.pop(number)
            results.append(Result(request, [each._replace(exploration=request.exploration) for each in episodes], {}))
        return results


class SimulatedRun(Run):
    """A run with simulated actors that measures the time in learner steps, and memory."""

    def __init__(self, config: TrainConfig[Any], options: Options, episodes: list[Any], step_seconds: float) -> None:
        super().__init__(config)
        self.options, self.episodes, self.step_seconds = options, episodes, step_seconds
        self.busy = self.began = self.ended = 0.0
        self.memory: list[tuple[float, float]] = []
        """Pairs (seconds since the first learner step, megabytes of all processes)."""
        step = self.learner.step

        def timed(rng: np.random.Generator) -> dict[str, float]:
            begin = time.monotonic()
            self.began = self.began or begin
            figures = step(rng)
            self.busy += time.monotonic() - begin
            return figures

        self.learner.step = timed  # type: ignore[method-assign]

    def _start_actors(self, opened: ExitStack) -> SimulatedActors:
        self.cluster = Cluster("local")
        opened.callback(self.cluster.close)
        given = (self.cluster, self.episodes, self.step_seconds, self.options.actors, self.options.per_process)
        return opened.enter_context(closing(SimulatedActors(*given)))

    def _loop(self, *given: Any) -> None:
        super()._loop(*given)
        self.ended = time.monotonic()

    def measure(self, stop: threading.Event) -> None:
        """Measures memory at intervals until `stop` is set, and prints the figures so far."""
        while not stop.wait(max(self.options.seconds / 20, 2.0)):
            if self.began:
                self.memory.append((time.monotonic() - self.began, _family_megabytes()))
                print(f"  {self.memory[-1][0]:.0f} s: step {self.learner.steps}, {self.figures_now()}", flush=True)

    def figures_now(self) -> str:
        """Share of time in learner steps, share of the allowed learner steps, and memory, as text."""
        learner: Any = self.learner
        seconds = (self.ended or time.monotonic()) - self.began
        allowed = learner.config.updates_per_step * (learner.replay.added - learner.config.learning_starts)
        rate = learner.steps / seconds
        made = f"{100 * learner.steps / max(allowed, 1):.2f} % of the learner steps that the ratio allows, {rate:.1f} a second"
        return f"learner busy {100 * self.busy / seconds:.1f} %, {made}, {self.memory[-1][1]:.0f} MB"


def _family_megabytes() -> float:
    """Proportional set size (PSS) of this process and its descendants, in MB."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    family = [os.getpid()]
    for each in family:
        family += [child for child, parent in parents.items() if parent == each]
    total = 0.0
    for pid in family:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(float(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return total


def many(options: Options) -> None:
    """Trains with simulated actors. Prints how busy the learner is, whether it keeps its pace, and how memory grows."""
    result, step = played(SEARCHING, options, 8, warm_up=False)
    step = options.step_ms / 1e3 if options.step_ms else step
    episodes = [*result.episodes, *played(SEARCHING, options, 64, warm_up=True)[0].episodes]
    mean = float(np.mean([len(each.steps) for each in episodes]))
    request = mean * options.episodes * step
    print(f"{options.actors} actors, {1e3 * step:.1f} ms a step: {options.actors / step:,.0f} steps/s, {request:.1f} s a request")
    with tempfile.TemporaryDirectory() as folder:
        config = _config(SEARCHING, options, Path(folder), actors=options.actors)
        (Path(folder) / "config.json").write_text("{}")
        run = SimulatedRun(config, options, episodes, step)
        stop = threading.Event()
        watch = threading.Thread(target=run.measure, args=(stop,), daemon=True)
        watch.start()
        run.go(screen=False)
        stop.set()
        watch.join()
    half = [megabytes for seconds, megabytes in run.memory if seconds > options.seconds / 4]
    print(f"in all: {run.figures_now()}")
    print(f"memory after a quarter of the time {half[0]:.0f} MB, at the end {half[-1]:.0f} MB, at most {max(half):.0f} MB")


if __name__ == "__main__":
    options = tyro.cli(Options)
    {"sizes": sizes, "pair": pair, "many": many}[options.part](options)
