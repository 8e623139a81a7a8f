"""The command `reproduce`, which repeats the experiments of the paper. It lists the paper's figures, runs the trainings and evaluations
that they need, and writes the report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from trilith.utils.checks import require
from trilith.utils.console import show, table_of

if TYPE_CHECKING:
    from rich.table import Table

    from trilith.paper.execute import Job, Place
    from trilith.paper.figures import Figure

SHOWN = 12
"""Maximum number of jobs in the live table."""


@dataclass
class Reproduce:
    """Re-run figures of the paper: train and measure the agents that they need. After a stop or a kill, the same command resumes.

    Example: trilith reproduce --list

    Example: trilith reproduce 4a 4b --scale laptop --tasks covering_hard --seeds 3

    Example: trilith reproduce --report
    """

    figures: Positional[Annotated[tuple[str, ...], arg(metavar="[FIGURE ...]")]] = ()
    """Names of figures and tables, as `trilith reproduce --list` lists them. Without a name, all of them."""
    scale: Literal["smoke", "laptop", "paper"] = "laptop"
    """smoke: seconds for each run, to see that everything works. laptop: 20 minutes of one core for each run. paper: as in the paper."""
    tasks: tuple[str, ...] = ()
    """Only re-run these tasks. Without a name: all tasks of the figures (smoke: one task of each)."""
    seeds: int | None = None
    """Number of seeds for each agent. None: 1 (smoke), 3 (laptop) or 10 (paper)."""
    workers: int | None = None
    """Number of processes. None: one for each core."""
    actors: int | None = None
    """Number of actors of each training. None: 0 (smoke and laptop: the learner plays itself, and the run is deterministic), or as many as
    the recipe has (paper)."""
    cluster: str | None = None
    """Run the actors and the evaluations on a Ray cluster: local, auto or an address, as in `trilith train`. The learners stay on this
    machine. With the scales smoke and laptop, needs --actors, 1 or more."""
    folder: Path = Path("runs/paper")
    """Folder for the runs."""
    ledger: Path = Path("ledger")
    """Folder of the ledger. Measurements that are already in it are not run again."""
    show: Annotated[bool, arg(name="list")] = False
    """Only list the figures and their cost at this scale."""
    first: bool = False
    """Only the parts that the scale laptop runs first, because they matter most: about 31 hours of one core."""
    plan: bool = False
    """Only show the commands that are still to run, and their cost."""
    report: bool = False
    """Draw all figures from the ledger, and write the page paper_rerun.md."""
    out: Path = Path("docs")
    """With --report: folder for the page."""
    films: Path | None = None
    """Write films of ten episodes of the best agents in the ledger (Table G.1) into this folder."""

    def run(self) -> None:
        """Runs the plan. With --list, --plan, --report or --films, lists the figures, shows the plan, writes the report, or writes films
        instead."""
        from trilith.paper.execute import Place
        from trilith.paper.figures import figures_named
        from trilith.paper.scales import SCALES
        from trilith.world.tasks import TASKS

        figures, how = figures_named(self.figures), SCALES[self.scale]
        for task in self.tasks:
            require(task in TASKS, f"there is no task {task!r} in the paper: choose {', '.join(TASKS)}")
        require(self.seeds is None or self.seeds >= 1, f"{self.seeds} seeds: must be 1 or more")
        require(not self.first or how.first, f"the scale {self.scale} runs no parts first: leave out --first, or choose --scale laptop")
        require(self.workers is None or self.workers >= 1, f"{self.workers} workers: must be 1 or more")
        require(self.actors is None or self.actors >= 0, f"{self.actors} actors: must be 0 or more")
        actors = self.actors if self.actors is not None or self.scale == "paper" else 0
        require(not self.cluster or actors != 0, "cluster: it runs actors: choose --actors 1 or more for each training")
        seeds, workers = self.seeds or how.seeds, self.workers or os.cpu_count() or 1
        if self.report:
            from trilith.paper.report import write_report

            print(write_report(self.ledger, self.out, self.scale))
        elif self.films:
            self._films(self.films)
        elif self.show:
            self._list(figures, seeds)
        else:
            self._execute(figures, seeds, workers, Place(actors, self.cluster))

    def _films(self, folder: Path) -> None:
        from trilith.paper.draw import write_films
        from trilith.paper.ledger import read_ledger
        from trilith.paper.report import Found

        count = 0
        for path in write_films(Found(read_ledger(self.ledger), self.scale), folder):
            count += 1
            print(path, flush=True)
        require(count, f"{self.ledger} has no entries of the agents of Table G.1 at the scale {self.scale}")

    def _list(self, figures: Sequence[Figure], seeds: int) -> None:
        from trilith.paper.plan import make_plan, measurement_seconds, run_seconds, runs_of, tasks_of
        from trilith.paper.scales import SCALES

        how = SCALES[self.scale]
        table = table_of("figure", "what", "tasks", "runs", "evaluations", "core-hours", "printed values")
        table.columns[1].justify = "left"
        for figure in figures:
            plan, tasks = make_plan([figure], self.scale, how, self.tasks, seeds), tasks_of(figure, how, self.tasks)
            runs = runs_of(plan)
            hours = (sum(map(run_seconds, runs)) + sum(map(measurement_seconds, plan))) / 3600
            printed = str(len(figure.printed)) if figure.printed else "none" if figure.kind == "scenes" else "plotted only"
            table.add_row(
                figure.name, figure.title, str(len(tasks)), str(len(runs)), str(len(plan)), f"{hours:.1f}", printed
            )  # fmt: skip
        show(table)
        print(f"Scale {self.scale}: {how.about} {seeds} seeds. Figures share runs, so all together cost less than their sum.")

    def _execute(self, figures: Sequence[Figure], seeds: int, workers: int, place: Place) -> None:
        from trilith.agents.weights import learning, missing
        from trilith.paper.execute import execute, last_line, make_jobs, total_seconds
        from trilith.paper.plan import make_plan
        from trilith.paper.scales import SCALES
        from trilith.utils.files import folder_lock, make_folder

        plan = make_plan(figures, self.scale, SCALES[self.scale], self.tasks, seeds, self.first)
        jobs = make_jobs(plan, SCALES[self.scale], self.folder, self.ledger, place)
        todo = [job for job in jobs if job.state != "done"]
        trainings = sum(job.command[0] == "train" for job in todo)
        seconds = total_seconds(jobs)
        print(f"{len(plan)} measurements, of which the ledger has {len(plan) - sum(job.command[0] == 'evaluate' for job in jobs)}.")
        print(f"To do: {trainings} trainings and {len(todo) - trainings} other commands, {_duration(seconds)} of one core,")
        print(f"about {_duration(seconds / workers)} with {workers} processes side by side.", flush=True)
        if self.plan:
            for job in todo:
                print(f"{_duration(job.seconds):>8}  trilith {' '.join(job.command)}")
            return
        if trainings and not learning():
            raise ValueError(missing("training"))
        make_folder(self.folder)
        with folder_lock(self.folder), _Live() as live:
            failed = execute(jobs, self.folder.absolute(), workers, live.update)
        for job in failed:
            if said := last_line(job):
                print(f"{job.name} failed: {said} (see {job.log})")
        require(not failed, f"{len(failed)} of {len(jobs)} commands failed; the same command tries them again")
        print(f"done: {self.ledger}")


class _Live:
    """A live table of the jobs. If the screen is not a terminal, prints a line whenever a job has ended."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        self._live = Live(console=console, refresh_per_second=2, transient=True) if console.is_terminal else None
        self._console, self._ended = console, -1

    def __enter__(self) -> _Live:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def update(self, jobs: Sequence[Job]) -> None:
        """Shows the state of all jobs."""
        states = [job.state for job in jobs]
        ended = states.count("done") + states.count("failed")
        if self._live:
            self._live.update(_jobs_table(jobs))
        elif ended != self._ended:
            self._console.print(_summary(jobs), soft_wrap=True, highlight=False)
        self._ended = ended


def _summary(jobs: Sequence[Job]) -> str:
    from trilith.paper.execute import total_seconds

    counts = {state: sum(job.state == state for job in jobs) for state in ("done", "running", "waiting", "failed")}
    return f"{', '.join(f'{count} {state}' for state, count in counts.items())}; left: {_duration(total_seconds(jobs))} of one core"


def _jobs_table(jobs: Sequence[Job]) -> Table:
    import time

    table = table_of(_summary(jobs), "state", "minutes", "estimated")
    order: dict[str, Any] = {"running": 0, "failed": 1, "waiting": 2, "done": 3}
    for job in sorted(jobs, key=lambda job: order[job.state])[:SHOWN]:
        spent = f"{(time.monotonic() - job.started) / 60:.1f}" if job.state == "running" else ""
        table.add_row(f"{job.command[0]} {job.name}", job.state, spent, f"{job.seconds / 60:.1f}")
    return table


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
