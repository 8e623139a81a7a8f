"""Runs a plan: trainings and evaluations in parallel processes, with one live table.

All progress is on disk: runs have checkpoints, evaluations have journals, and a measurement is done if the ledger has its entry. So the
same command resumes the plan after it was stopped or killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trilith.paper.ledger import read_ledger
from trilith.paper.plan import STARTUP, Measurement, Run, index, measurement_seconds, missing, run_seconds, runs_of
from trilith.paper.scales import Scale
from trilith.utils.files import make_folder

TRAINED = "trained"
"""Name of an empty file in the folder of a run, which shows that the training is done."""
POLL_SECONDS = 0.5
RECORDED_PER_SECOND = 60.0
"""Approximate number of episodes that one core plays and records per second."""
MODEL_STEPS_PER_SECOND = {"attention": 45.0, "graph": 14.0}
"""Approximate number of learner steps per second of one core in Covering Hard when a transition model is trained. The keys are the networks
of the model."""


@dataclass(eq=False)
class Job:
    """A command to run in a process of its own."""

    name: str
    command: list[str]
    """Arguments of `trilith`."""
    seconds: float
    """Estimated duration in seconds on one core."""
    log: Path
    """File to which the output of the command is appended."""
    needs: list[Job] = field(default_factory=list)
    """Jobs that must be done before this one starts."""
    prepare: Callable[[], None] = lambda: None
    """Called before the command starts."""
    finish: Callable[[], None] = lambda: None
    """Called after the command has succeeded."""
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    """Time of the start by `time.monotonic`."""
    state: str = "waiting"
    """waiting, running, done or failed."""

    def ready(self) -> bool:
        """Whether this job has not started, and all jobs that it needs are done."""
        return self.state == "waiting" and all(other.state == "done" for other in self.needs)

    def hopeless(self) -> bool:
        """Whether this job has not started, and a job that it needs has failed."""
        return self.state == "waiting" and any(other.state == "failed" for other in self.needs)


@dataclass(frozen=True)
class Place:
    """Options of trainings and evaluations: actors and cluster."""

    actors: int | None = 0
    """Number of actors of each training. 0: the learner plays itself, and the run is deterministic. None: as many as the recipe has."""
    cluster: str | None = None
    """The Ray cluster on which actors and evaluations run: local, auto or an address. None: this machine."""

    def of_training(self) -> list[str]:
        """Arguments of `trilith train` for actors and cluster."""
        actors = [] if self.actors is None else [f"--actors={self.actors}"]
        return [*actors, *([f"--cluster={self.cluster}"] if self.cluster else [])]

    def of_evaluation(self) -> list[str]:
        """Arguments of `trilith evaluate` for workers and cluster."""
        return [f"--workers={self.actors or 1}", f"--cluster={self.cluster}"] if self.cluster else ["--workers=1"]


HERE = Place()


def make_jobs(measurements: Sequence[Measurement], how: Scale, folder: Path, ledger: Path, place: Place = HERE) -> list[Job]:
    """Returns the jobs for all measurements that are missing in the ledger, in the order of `measurements`. The jobs of a training come
    directly before the first evaluation of its agent; some may be done already. `how` is the scale, and `ledger` the folder of the ledger.
    Commands run in `folder`, which contains a folder for each run."""
    folder, ledger = folder.absolute(), ledger.absolute()
    entries = read_ledger(ledger)
    todo = missing(measurements, index(entries))
    jobs: dict[str, Job] = {}
    for measurement in todo:
        for run in runs_of([measurement]):
            if run.name not in jobs:
                jobs |= {job.name: job for job in _training(run, how, folder, jobs, entries, place)}
        job = _evaluation(measurement, folder, ledger, place)
        if isinstance(measurement.agent, Run):
            job.needs.append(jobs[measurement.agent.name])
        jobs[job.name] = job
    return [*jobs.values()]


def _training(run: Run, how: Scale, folder: Path, jobs: dict[str, Job], entries: Sequence[Any], place: Place) -> list[Job]:
    """Returns the jobs of a training; the training itself is the last. If the agent searches in a pretrained model, two jobs come first:
    record episodes, and train the model. A job that `jobs` already has is not made again. `jobs` must have the training of `run.model_of`.
    `how` is the scale, and `entries` are those of the ledger."""
    needs, found = [], []
    if run.model_of:
        source, model = run.model_of.name, f"models/{run.model_of.name}-{run.model}"
        record = ["record-episodes", f"{source}/last.safetensors", "--task", run.task, f"--episodes={how.model_episodes}"]
        record += [f"--out=data/{source}", "--zero-on-hit", "--workers=1"]
        learn = ["train-model", f"data/{source}", f"--out={model}", f"--model.steps={how.model_steps}", f"--model.net.network={run.model}"]
        needs = [jobs[source]]
        recorded, learned = how.model_episodes / RECORDED_PER_SECOND, how.model_steps / MODEL_STEPS_PER_SECOND[run.model]
        for command, seconds, of in ((record, recorded, f"data/{source}"), (learn, learned, model)):
            name = f"{command[0]} {Path(of).name}"
            if name not in jobs:
                job = Job(name, command, STARTUP + seconds, folder / f"{of}.log", needs)
                found.append(_once(job, folder / "models" / f".{name.replace(' ', '-')}"))
            needs = [jobs.get(name) or found[-1]]
    seconds = run_seconds(run, entries)
    job = Job(run.name, [*run.arguments(), *place.of_training(), f"--out={run.name}"], seconds, folder / f"{run.name}.log", needs)
    return [*found, _once(job, folder / run.name / TRAINED)]


def _once(job: Job, mark: Path) -> Job:
    """Gives a job a marker file `mark`, which is written when the job is done. If the file exists, the job counts as done already. Returns
    the job."""
    if mark.exists():
        job.state = "done"

    def finish() -> None:
        make_folder(mark.parent)
        mark.touch()

    job.finish = finish
    return job


def _evaluation(measurement: Measurement, folder: Path, ledger: Path, place: Place) -> Job:
    run = measurement.agent if isinstance(measurement.agent, Run) else None
    name = f"{run.name if run else f'{measurement.agent}-{measurement.task}'}-{measurement.level}-{measurement.scenes}"
    search = measurement.search
    command = ["evaluate", f"{run.name}/last.safetensors" if run else str(measurement.agent), "--task", measurement.task]
    command += [f"--level={measurement.level}", f"--scenes={measurement.scenes}", "--zero-on-hit", "--worst=0", *place.of_evaluation()]
    if search.budget:
        options = {"search.algorithm": search.algorithm, "search.c": search.c, "search.stages": search.stages}
        command += [f"--budget={search.budget}", *(f"--{option}={value}" for option, value in options.items())]
        name += f"-budget{search.budget}" + ("-one-stage" if search.stages == 1 else "")
    out = folder / "results" / f"{name}.json"
    command += [f"--out={out}", f"--ledger={ledger}"]
    # `evaluate --ledger` refuses to run if there is a result, which has no actions. So a result without an entry is removed first.
    return Job(
        name, command, measurement_seconds(measurement), folder / "results" / f"{name}.log", prepare=lambda: out.unlink(missing_ok=True)
    )


def total_seconds(jobs: Sequence[Job]) -> float:
    """Estimated duration, in seconds on one core, of all jobs that are waiting or running."""
    return sum(job.seconds for job in jobs if job.state in ("waiting", "running"))


def execute(jobs: Sequence[Job], folder: Path, workers: int, show: Callable[[Sequence[Job]], None]) -> list[Job]:
    """Runs all jobs in their order, at most `workers` at a time. Commands run in `folder`. Calls `show` often, to update the display.
    Returns the jobs that failed, including those that need a failed job.

    On Ctrl-C, asks the running processes to save and end, and waits for them.
    """
    running: list[Job] = []
    try:
        while True:
            for job in [each for each in running if each.process and each.process.poll() is not None]:
                running.remove(job)
                _end(job)
            for job in jobs:
                if job.hopeless():
                    job.state = "failed"
                elif len(running) < workers and job.ready():
                    _start(job, folder)
                    running.append(job)
            show(jobs)
            if not running:
                return [job for job in jobs if job.state == "failed"]
            time.sleep(POLL_SECONDS)
    finally:
        for job in running:
            if job.process:
                job.process.terminate()  # a training then saves its run
        for job in running:
            if job.process:
                job.process.wait()


def _start(job: Job, folder: Path) -> None:
    for path in (folder, job.log.parent):
        make_folder(path)
    job.prepare()
    with job.log.open("ab") as log:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": _python_path()}
        job.process = subprocess.Popen(
            [sys.executable, "-m", "trilith.cli", *job.command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
    job.state, job.started = "running", time.monotonic()


def _python_path() -> str:
    """The value of PYTHONPATH for jobs. The folder of this package comes first, so that a clone that is not installed runs its own code."""
    return os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))


def _end_with_parent() -> None:
    """Called in a new process: asks the system to send it SIGTERM when its parent ends, even if the parent is killed. Otherwise a training
    would continue unnoticed."""
    import ctypes

    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def _end(job: Job) -> None:
    assert job.process is not None
    if job.process.returncode == 0:
        job.finish()
        job.state = "done"
    else:
        job.state = "failed"


def last_line(job: Job) -> str:
    """The last line that a job printed, which says why it failed. Empty if the job was never started."""
    lines = job.log.read_text(encoding="utf-8", errors="replace").split("\n") if job.process and job.log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
