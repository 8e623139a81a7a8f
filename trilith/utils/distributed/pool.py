"""The pool of workers behind actors, evaluations and the web page. It replaces workers that die, and returns exactly one result or failure
for every job that is not cancelled.

A job waits until a worker is ready for it. If that worker dies, another one gets the job. The first result of a job counts; later results
are dropped. `process_pool` has workers on this machine, `ray_pool` has workers on a cluster.
"""

from __future__ import annotations

import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Any, Literal, NamedTuple

from trilith.utils.distributed.processes import hold_interrupts

Work = Callable[[Any, Any], Any]
"""The function with which a worker does a job: (job, shared) -> result. `shared` is data that many jobs have in common, such as weights."""

QUEUE = 2
"""Number of jobs that a worker holds at a time. With two, the worker starts the second job while the result of the first is being sent."""
MAX_DEATHS = 4
"""Number of workers that may die during the same job; with one more, the job fails. Also the number of times in a row that a worker may
fail to start."""
BEAT_SECONDS = 30.0
"""Seconds between two heartbeats of a worker. Heartbeats are also sent during a long job."""
STALL_SECONDS = 300.0
"""A worker that has a job is replaced if it has sent no heartbeat and no result for this many seconds."""
MAX_DELAY = 5.0
"""Longest pause in seconds before a failed start is tried again. Without a pause, retries would keep a core busy."""


class Failure(NamedTuple):
    """The reason why a job has no result. Exceptions are sent as text, because some exceptions cannot be pickled."""

    kind: Literal["refused", "failed", "died", "late"]
    """refused: a ValueError, whose message is for the user; failed: any other exception; died: too many workers died during this job;
    late: the job exceeded its time limit."""
    text: str
    """The reason in one line."""
    trace: str = ""


def attempt(work: Callable[..., Any], *arguments: Any) -> tuple[Any, Failure | None]:
    """Calls `work`. Returns the pair (result, None), or (None, failure) if `work` raises an exception."""
    try:
        return work(*arguments), None
    except ValueError as error:
        return None, Failure("refused", str(error), traceback.format_exc())
    except Exception as error:
        return None, Failure("failed", f"{type(error).__name__}: {error}", traceback.format_exc())


@dataclass(eq=False)
class Job:
    """A job that was sent to a pool."""

    number: int
    content: Any
    shared: Any
    deaths: int = 0
    """Number of workers that died, or stopped answering, while they did this job."""
    deadline: float = inf
    """Latest time for the end of the job, on the clock `time.monotonic`. A worker that is still doing the job then is replaced."""
    worker: str = ""
    """Name of the worker that got the job last."""
    result: Any = None
    failure: Failure | None = None


class Worker(ABC):
    """A pool's record of one worker process."""

    def __init__(self, number: int, name: str) -> None:
        self.number, self.name = number, name
        self.ready = False
        self.jobs: dict[int, Job] = {}
        """Maps the number of each unfinished job of the worker to the job, oldest first."""
        self.started = self.heard = time.monotonic()
        """Two times on the clock `time.monotonic`. `started`: the worker was started. `heard`: the last event came from the worker, or the
        worker got a job while it had none."""

    @abstractmethod
    def send(self, job: Job) -> None:
        """Sends a job to the worker. Returns at once."""

    @abstractmethod
    def kill(self) -> None:
        """Kills the process without waiting for its end."""

    def exit_status(self) -> str:
        """Says how the process ended, such as "exit code 1". The text is empty if this is not known. Waits at most a few seconds for the
        end."""
        return ""


class Ready(NamedTuple):
    """Event: a worker has started (`failure` is None), or has failed to start."""

    worker: Worker
    failure: Failure | None


class Alive(NamedTuple):
    """Event: a worker has sent a heartbeat."""

    worker: Worker


class Done(NamedTuple):
    """Event: a worker has finished the job number `number`. If the job failed, `failure` says why and `result` is None; otherwise `failure`
    is None."""

    worker: Worker
    number: int
    result: Any
    failure: Failure | None


class Died(NamedTuple):
    """Event: a worker has died, or cannot be used."""

    worker: Worker
    why: str = ""
    """The reason. If empty, the worker's exit status is used."""
    pause: float = 0.0
    """Seconds to wait before the next worker starts in its place; 0: see `Pool._lose`."""


Event = Ready | Alive | Done | Died


class Pool(ABC):
    """A pool of workers: assigns jobs, and restarts workers that die. A subclass starts the workers and waits for their events."""

    def __init__(
        self,
        what: str = "worker",
        *,
        queue: int = QUEUE,
        max_deaths: int = MAX_DEATHS,
        restart: Literal["never", "limited", "always"] = "limited",
        start_seconds: float = inf,
        job_seconds: float = inf,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        """Starts no worker yet.

        Args:
            what: the word for a worker in notes and errors.
            queue: number of jobs that a worker holds at a time: the one that it does, and the next ones.
            max_deaths: how many workers may die during the same job; with one more, the job fails.
            restart: whether dead workers are replaced. `never`: a death raises ChildProcessError. `limited`: they are replaced, but more
                than `MAX_DEATHS` deaths in a row during the start of a worker raise ValueError. `always`: they are replaced without limit.
                Except with `always`, a worker that reports that it cannot start raises ValueError.
            start_seconds: time limit of a worker's start, in seconds.
            job_seconds: time limit of a job, in seconds from the moment when a worker gets it.
            stall_seconds: a worker that has a job is replaced if nothing is heard from it for this many seconds.
        """
        self.what, self.queue, self.max_deaths, self.restart = what, queue, max_deaths, restart
        self.start_seconds, self.job_seconds, self.stall_seconds = start_seconds, job_seconds, stall_seconds
        self.notes: list[str] = []
        """Reports about workers. The user of the pool prints and clears them."""
        self.workers: list[Worker] = []
        self.waiting: list[Job] = []
        """Jobs that are not yet assigned to a worker, in order."""
        self.failed_starts: Counter[int] = Counter()
        """Maps the number of a worker to how often it has failed to start since its last successful start."""
        self._unfinished: dict[int, Job] = {}
        self._finished: list[Job] = []
        """Jobs finished since `handle` last returned."""
        self._sent = 0
        self._starts: list[tuple[float, int]] = []
        """Planned starts of workers, as (time on the clock `time.monotonic`, number of the worker)."""

    @abstractmethod
    def poll(self, timeout: float) -> list[Event]:
        """Returns the events since the last call. If there are none, waits at most `timeout` seconds for the first one. The list is empty
        if none comes."""

    @abstractmethod
    def _new_worker(self, number: int) -> Worker:
        """Starts the worker process number `number`. Returns the pool's record of it."""

    def start(self, count: int) -> None:
        """Starts workers until the pool has `count` of them. If a start fails, all workers are stopped."""
        try:
            self._starts += [(0.0, number) for number in range(len(self.workers) + len(self._starts), count)]
            self._start_due()
        except BaseException:
            self.close()
            raise

    def idle(self) -> int:
        """Number of further jobs that the workers have room for now."""
        free = sum(self.queue - len(worker.jobs) for worker in self.workers if worker.ready)
        return max(free - len(self.waiting), 0)

    def send(self, job: Any, shared: Any = None) -> Job:
        """Adds a job and returns at once. As soon as a worker has room, it gets the job and calls its function with `job` and `shared`. If
        several workers have room, the one with the fewest jobs gets it."""
        self._sent += 1
        sent = self._unfinished[self._sent] = Job(self._sent, job, shared)
        self.waiting.append(sent)
        self._assign()
        return sent

    def cancel(self, job: Job, grace: float) -> None:
        """Cancels a job, so that it gets no result. If no worker has the job yet, it is removed. A worker that still does this job after
        `grace` seconds is replaced."""
        self._unfinished.pop(job.number, None)
        job.deadline = min(job.deadline, time.monotonic() + grace)
        if job in self.waiting:
            self.waiting.remove(job)

    def receive(self, timeout: float) -> list[Any]:
        """Returns the results that arrived since the last call, in the order of arrival. If nothing has happened since, waits at most
        `timeout` seconds for the first event. The list is empty if no job has finished. Raises ValueError if a job failed."""
        finished = self.handle(self.poll(timeout))
        for job in finished:
            if job.failure:  # a second attempt would fail too
                raise ValueError(job.failure.text if job.failure.kind == "died" else f"{job.worker} failed: {job.failure.text}")
        return [job.result for job in finished]

    def handle(self, events: Sequence[Event]) -> list[Job]:
        """Handles the events that `poll` returned, enforces time limits, and replaces dead workers. Returns the jobs that have finished,
        each with its result or its failure. Raises ChildProcessError or ValueError as the pool's option `restart` says."""
        for event in events:
            event.worker.heard = time.monotonic()
            match event:
                case Ready(worker, failure):
                    self._begin(worker, failure)
                case Done(worker, number, result, failure):
                    worker.jobs.pop(number, None)
                    self._finish(number, result, failure)
                case Died(worker, why, pause):
                    self._lose(worker, why, pause)
        self._check_times()
        self._start_due()
        self._assign()
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        """Kills the workers. Unfinished jobs get no result."""
        for worker in self.workers:
            worker.kill()
        for worker in self.workers:
            worker.exit_status()
        self.workers.clear()
        self._starts.clear()

    def _assign(self) -> None:
        """Gives waiting jobs to workers that have room."""
        while self.waiting:
            free = [worker for worker in self.workers if worker.ready and len(worker.jobs) < self.queue]
            if not free:
                return
            worker, job, now = min(free, key=lambda each: len(each.jobs)), self.waiting.pop(0), time.monotonic()
            if not worker.jobs:
                worker.heard = now
            job.worker, job.deadline = worker.name, now + self.job_seconds
            worker.jobs[job.number] = job
            worker.send(job)

    def _finish(self, number: int, result: Any, failure: Failure | None) -> None:
        """Stores the first result or failure of the job number `number`, and ignores later ones. A result may come from a worker that was
        already replaced."""
        if job := self._unfinished.pop(number, None):
            job.result, job.failure = result, failure
            self._finished.append(job)
            if job in self.waiting:
                self.waiting.remove(job)

    def _begin(self, worker: Worker, failure: Failure | None) -> None:
        if failure and self.restart != "always":
            raise ValueError(f"{worker.name} cannot start: {failure.text}")
        if failure:
            self._lose(worker, f"cannot start: {failure.text}")
        else:
            worker.ready = True
            self.failed_starts[worker.number] = 0

    def _check_times(self) -> None:
        """Replaces workers that exceed the time limit of a start or of a job, and workers that have a job but stopped sending
        heartbeats."""
        now = time.monotonic()
        for worker in list(self.workers):
            current = next(iter(worker.jobs.values()), None)
            if not worker.ready and now - worker.started > self.start_seconds:
                self._lose(worker, f"did not start within {self.start_seconds:g} s")
            elif current and now > current.deadline:
                self._finish(current.number, None, Failure("late", f"took longer than {self.job_seconds:g} s"))
                self._retire(worker)
                self._starts.append((now, worker.number))
            elif current and now - worker.heard > self.stall_seconds:
                self._lose(worker, f"did not answer for {self.stall_seconds:g} s")

    def _retire(self, worker: Worker) -> None:
        """Kills a worker, and puts its unfinished jobs at the front of the waiting jobs. They run again soon, so a job that kills every
        worker soon fails for good. Starts no other worker."""
        self.workers.remove(worker)
        worker.kill()
        worker.exit_status()
        self.waiting[:0] = [job for number, job in worker.jobs.items() if number in self._unfinished]

    def _lose(self, worker: Worker, why: str, pause: float = 0.0) -> None:
        """Replaces a worker that died or must be stopped. Does nothing if the worker was replaced already. Raises ChildProcessError or
        ValueError if the pool's option `restart` does not allow the replacement.

        Args:
            worker: the worker to replace.
            why: the reason, as a phrase after the worker's name. If empty, the exit status is used.
            pause: seconds before the next worker starts. With 0, it starts at once, or, if `worker` died during its start, after a pause
                that grows with the number of failed starts.
        """
        if worker not in self.workers:
            return
        why = why or f"died ({worker.exit_status()})"
        self._retire(worker)
        if self.restart == "never":
            raise ChildProcessError(f"a {self.what} {why}: finished work is kept, and the same command resumes")
        self.notes.append(f"{worker.name} {why}; another one starts")
        for job in islice(worker.jobs.values(), 1):  # the job that the worker was doing
            job.deaths += 1
            if job.deaths > self.max_deaths:
                text = f"{job.deaths} {self.what}s died of the same job: is there enough memory?"
                self._finish(job.number, None, Failure("died", text))
        if not worker.ready and not pause:
            self.failed_starts[worker.number] += 1
            failed = self.failed_starts[worker.number]
            if self.restart == "limited" and failed > MAX_DEATHS:
                raise ValueError(f"{self.what} {worker.number} could not be started {failed} times: the last one {why}")
            pause = min(0.1 * 2.0**failed, MAX_DELAY)
        self._starts.append((time.monotonic() + pause, worker.number))

    def _start_due(self) -> None:
        """Starts the workers whose planned time has come. If a start raises an error, the next call tries it again."""
        while self._starts and (due := min(self._starts))[0] <= time.monotonic():
            with hold_interrupts():
                self.workers.append(self._new_worker(due[1]))
            self._starts.remove(due)


def do_all(pool: Pool, jobs: Sequence[Any]) -> Iterator[Any]:
    """Does jobs with a pool. Yields each result as soon as it is ready, in any order. Prints the pool's notes, and closes the pool at the
    end.

    Raises ValueError if a job raises ValueError, if it exceeds its time limit, or if too many workers die during it. Raises RuntimeError
    with the traceback if a job raises any other exception.
    """
    with closing(pool):
        for job in jobs:
            pool.send(job)
        left = len(jobs)
        while left:
            for done in pool.handle(pool.poll(1.0)):
                if done.failure and done.failure.kind == "failed":
                    raise RuntimeError(f"in {done.worker}:\n{done.failure.trace}")
                if done.failure:
                    raise ValueError(done.failure.text)
                left -= 1
                yield done.result
            for note in pool.notes:
                print(note, file=sys.stderr)
            pool.notes.clear()
