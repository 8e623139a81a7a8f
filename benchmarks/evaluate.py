"""How fast agents are measured: `python benchmarks/evaluate.py [AGENT [SCENES]]` times one and two workers in each task.

At first the episodes/s of one and of two workers, hardest level, starting the processes included, in turns so that a machine
that is busy with other things is so for both. Then how long 10,000 hardest Covering Hard episodes take with two workers: for
`legal` that is to be under 2 minutes. A machine with fewer than two idle cores says nothing about the ratio.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter as clock

from rich.console import Console
from rich.table import Table

from trilith.evaluate import Evaluation, Run
from trilith.tasks import TASKS

WHOLE = Evaluation("legal", "covering_hard", scenes=10_000, worst=0)


def seconds(evaluation: Evaluation, workers: int) -> float:
    """Time that an evaluation takes from nothing to its file."""
    with TemporaryDirectory() as folder:
        begin = clock()
        run = Run(evaluation, Path(folder) / "result.json")
        for _ in run.run(workers):
            pass
        run.finish()
        return clock() - begin


def main() -> None:
    """Prints the table."""
    agent = sys.argv[1] if len(sys.argv) > 1 else WHOLE.agent
    scenes = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    table = Table("task (hardest)", "1 worker: episodes/s", "2 workers", "ratio", title=f"{agent}, {scenes} scenes, best of 2")
    for task in TASKS:
        evaluation = Evaluation(agent, task, scenes=scenes, worst=0)
        turns = [(seconds(evaluation, 1), seconds(evaluation, 2)) for _ in range(2)]
        one, two = (min(times) for times in zip(*turns, strict=True))
        table.add_row(task, f"{scenes / one:.0f}", f"{scenes / two:.0f}", f"{one / two:.2f}")
    console = Console(width=100)
    console.print(table)
    if agent == WHOLE.agent:
        console.print(f"{WHOLE.scenes} episodes of {WHOLE.task} with 2 workers: {seconds(WHOLE, 2):.0f} s")
    console.print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}: if well above 2, others were at work too")


if __name__ == "__main__":
    main()
