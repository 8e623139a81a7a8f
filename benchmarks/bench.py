"""The main figures of speed in one table, alone or beside those of another commit: `make bench` or `make bench BASE=REV`.

    python benchmarks/bench.py [--base REV] [--rounds 5] [--only acting]

With a base, that commit is checked out, and both packages are measured in turns, figure by figure, each in a process of its own. The
benchmarks are those of this commit. Figures are medians over rounds by processor time, so the ratios hold on a busy machine too. Above 1,
this commit is faster; within 0.05 of 1, the difference may be noise. A – means that the other package lacks what the benchmark needs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import isnan, nan
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import NamedTuple, NoReturn

import numpy as np
import tyro

import trilith  # first, because the other benchmarks put this commit's package on the path

os.environ.setdefault("OMP_NUM_THREADS", "1")

HERE = Path(__file__).resolve()
TASK = "covering_hard"
Job = Callable[[], float]


class Figure(NamedTuple):
    """A figure of the table. `prepare()` returns a function that measures it once."""

    prepare: Callable[[], Job]
    unit: str = "/s"
    """"/s": higher is better; a time or "×": lower is better."""


def random_play(task: str) -> Job:
    import env

    return lambda: env.random_steps(task, 200)


def planner_play(task: str) -> Job:
    import env

    planned = env.planned_episodes(task, 4)
    return lambda: len(planned) / env.seconds(env.whole_step, planned)


def beyond_engine(task: str, ratio: bool) -> Job:
    """Time of a step minus that of the engine, in ms; with `ratio`, the time of a step divided by that of the engine."""
    import env

    from trilith.world.scene import place
    from trilith.world.tasks import TASKS

    built = env.building_episodes(task, 100)
    calls = [(state, placement) for state, placement, _ in built]
    worlds = [(env.calls_of(place(state.scene, placement, TASKS[task].keeps_supply)),) for state, placement in calls]

    def job() -> float:
        whole, engine = env.seconds(env.whole_step, calls), env.seconds(env.engine_only, worlds)
        return whole / engine if ratio else 1e3 * (whole - engine) / len(calls)

    return job


def searching(network: str) -> Job:
    import search

    options = search.Options(task=TASK, seconds=1.0)

    def job() -> float:
        total, spent, _ = search.run(network, 16, options)
        return total / spent

    return job


def per_second(call: Callable[[], object], seconds: float = 0.5) -> float:
    """Calls per second."""
    count, begin = 0, process_time()
    while (spent := process_time() - begin) < seconds:
        call()
        count += 1
    return count / spent


def learning(recipe: str) -> Job:
    """Learner steps/s on 16 transitions (Q-networks, without the optimiser) or 16 sequences (RS0) of the hardest level."""
    import pixels
    import torch
    from networks.scenes import states  # type: ignore[import-not-found]  # with the tests, which `pixels` puts on the path

    from trilith.agents.dqn.policy import make_net, make_schema, observe
    from trilith.agents.rs0.learner import RS0Learner
    from trilith.training.actor import PlayRequest, collect
    from trilith.training.config import recipe_config
    from trilith.world.tasks import TASKS

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = recipe_config(recipe, TASK).agent
    if not recipe.endswith("rs0"):
        schema = make_schema(config, TASK, beyond=False)
        records = observe(schema, states(TASK, 32, level="hardest"))
        step = pixels.learner_step(make_net(config, schema), records[:16], records[16:])
        return lambda: per_second(step)
    made, rng = RS0Learner(replace(config, batch=16), TASK, seed=0), np.random.default_rng(0)
    hardest = (0.0,) * (len(TASKS[TASK].levels) - 1) + (1.0,)  # probabilities of levels
    for episode in collect(made.policy, TASK, PlayRequest((0, 1), 64, hardest, False, made.exploration())).episodes:
        made.add(episode)
    return lambda: per_second(lambda: made.step(rng))


def acting(scenes: int) -> Job:
    import acting as benchmark

    from trilith.evaluation.scene_sets import start_in_set

    agent, _ = benchmark.both_forms(TASK)
    starts, rngs = [start_in_set(TASK, "hardest", "test", i) for i in range(scenes)], [np.random.default_rng(0)] * scenes
    return lambda: benchmark.fastest(lambda: agent.act(starts, rngs))


def evaluating(agent: str, scenes: int) -> Job:
    import evaluate

    from trilith.evaluation.runner import Evaluation

    def job() -> float:
        begin = process_time()
        evaluate.seconds(Evaluation(agent, TASK, scenes=scenes, worst=0), 1)
        return scenes / (process_time() - begin)

    return job


FIGURES = {
    **{f"env, {task}: steps/s by chance": Figure(partial(random_play, task)) for task in ("silhouette", TASK)},
    **{f"env, {task}: steps/s of the planner": Figure(partial(planner_play, task)) for task in ("silhouette", TASK)},
    "env, silhouette: own ms of a step": Figure(partial(beyond_engine, "silhouette", False), "ms"),
    "env, silhouette: step / engine": Figure(partial(beyond_engine, "silhouette", True), "×"),
    **{f"search, {network}: simulations/s at 16": Figure(partial(searching, network)) for network in ("objects", "none")},
    **{f"learner, {recipe}: steps/s": Figure(partial(learning, recipe)) for recipe in ("objects", "gn-dqn", "pixels", "gn-rs0")},
    **{f"acting, objects: ms at {scenes}": Figure(partial(acting, scenes), "ms") for scenes in (1, 8, 32)},
    **{f"evaluate, {agent}: scenes/s": Figure(partial(evaluating, agent, n)) for agent, n in (("legal", 128), ("objects", 32))},
}


class Side:
    """A process that measures the package in the folder `tree`."""

    def __init__(self, tree: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        line = [sys.executable, str(HERE), "--serve"]
        self.process = subprocess.Popen(line, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, name: str) -> float:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        return float(json.loads(self.process.stdout.readline() or "NaN"))

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def serve() -> None:
    """Reads names of figures from standard input, and prints the value of each in a line. Prints NaN if the measurement fails, because an
    older package may lack what this commit's benchmarks use."""
    jobs: dict[str, Job] = {}
    for line in sys.stdin:
        name, value = line.strip(), nan
        try:
            if name not in jobs:
                jobs[name] = FIGURES[name].prepare()
                jobs[name]()  # compiles, and fills caches
            value = jobs[name]()
        except Exception as error:
            print(f"{trilith.__file__}: {type(error).__name__}: {error}", file=sys.stderr)
        print(json.dumps(value), flush=True)


def refuse(line: str) -> NoReturn:
    """Ends with the one-line message `line` and exit code 2."""
    print(f"bench.py: {line}", file=sys.stderr)
    raise SystemExit(2)


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """Context manager: yields the folder of a temporary git worktree of a commit."""
    with TemporaryDirectory() as folder:
        git, tree = ["git", "-C", str(HERE.parents[1]), "worktree"], Path(folder) / "tree"
        added = subprocess.run([*git, "add", "--quiet", "--detach", str(tree), revision], capture_output=True, text=True)
        if added.returncode:
            refuse(f"cannot check out {revision!r}: {' '.join(added.stderr.split())}")
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


@dataclass
class Options:
    """Benchmark the main figures."""

    base: str | None = None
    """Commit, branch or tag to compare with."""
    rounds: int = 5
    """Number of times that each figure is measured."""
    only: str = ""
    """Only figures whose name contains this text."""
    serve: bool = False
    """Measure the figures that standard input names. Used only by the benchmark itself."""


def main(options: Options) -> None:
    """Prints the table."""
    if options.serve:
        serve()
        return
    from trilith.utils.console import show, table_of

    if not any(options.only in name for name in FIGURES):
        refuse(f"--only {options.only!r}: no figure has this in its name; they are {', '.join(FIGURES)}")
    with ExitStack() as opened:
        trees = [Path(trilith.__file__).parents[1]]
        if options.base:
            trees.append(opened.enter_context(checked_out(options.base)))
        sides = [Side(tree) for tree in trees]
        for side in sides:
            opened.callback(side.close)
        table = table_of("figure (medians, one core)", "now", *([options.base, "times as fast"] if options.base else []))
        for name, figure in FIGURES.items():
            if options.only not in name:
                continue
            print(name, file=sys.stderr, flush=True)
            rounds = [[side.measure(name) for side in sides] for _ in range(options.rounds)]
            found = [median(values) for values in zip(*rounds, strict=True)]
            ratio = median(each[0] / each[-1] if figure.unit == "/s" else each[-1] / each[0] for each in rounds)
            if isnan(found[0]):
                refuse(f"{name}: not measured, see above")
            shown = ["–" if isnan(value) else f"{value:.4g}" for value in found]
            if options.base:
                shown.append("–" if isnan(ratio) else f"{ratio:.2f}")
            table.add_row(name, *shown)
    show(table)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
