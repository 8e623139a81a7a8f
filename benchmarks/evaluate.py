"""Speed of evaluations: `python benchmarks/evaluate.py [AGENT [SCENES]]` times one and two workers in each task.

One and two workers evaluate the hardest level in turns, so that other load hits both. Episodes/s are counted from the first finished group
of episodes on; the time before it, mostly the start of processes, has columns of its own. Then, for `legal` only, two workers play 10,000
hardest episodes of Covering Hard, in less than 2 minutes if all is well. The ratio is meaningless with fewer than two idle cores.
"""

from __future__ import annotations

import os

import tyro
from tyro.conf import Positional

os.environ.setdefault("OMP_NUM_THREADS", "1")  # with one worker as with two

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter as clock

from rich.console import Console
from rich.table import Table

from trilith.agents.registry import trained_for
from trilith.evaluation.runner import GROUP, Evaluation, Run
from trilith.world.tasks import TASKS

WHOLE = Evaluation("legal", "covering_hard", scenes=10_000, worst=0)


def seconds(evaluation: Evaluation, workers: int) -> tuple[float, float]:
    """Seconds until the first group of episodes is done, and from then until the result is in its file."""
    with TemporaryDirectory() as folder:
        begin = clock()
        first = 0.0
        run = Run(evaluation, Path(folder) / "result.json")
        for _ in run.run(workers):
            first = first or clock() - begin
        run.finish()
        return first, clock() - begin - first


def main(agent: Positional[str] = WHOLE.agent, scenes: Positional[int] = 4000) -> None:
    """Prints the table of an agent on `scenes` scenes of each task."""
    columns = ("task (hardest)", "1 worker: episodes/s", "2 workers", "2 workers ÷ 1", "s to start 1 worker", "2 workers")
    table = Table(*columns, title=f"{agent}, {scenes} scenes, best of 2")
    for task in TASKS:
        if not trained_for(agent, task):
            continue
        evaluation = Evaluation(agent, task, scenes=scenes, worst=0)
        turns = [(seconds(evaluation, 1), seconds(evaluation, 2)) for _ in range(2)]
        one, two = (min(times[1] for times in way) for way in zip(*turns, strict=True))
        starts = (min(times[0] for times in way) for way in zip(*turns, strict=True))
        counted = scenes - GROUP
        table.add_row(task, f"{counted / one:.0f}", f"{counted / two:.0f}", f"{one / two:.2f}", *(f"{start:.1f}" for start in starts))
    console = Console(width=100)
    console.print(table)
    if agent == WHOLE.agent:
        console.print(f"{WHOLE.scenes} episodes of {WHOLE.task} with 2 workers: {sum(seconds(WHOLE, 2)):.0f} s")
    console.print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}: if well above 2, others were at work too")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
