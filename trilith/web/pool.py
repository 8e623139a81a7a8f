"""A pool of workers for the event loop of the server. A bounded queue and a time limit ensure that a slow request cannot block the
server."""

from __future__ import annotations

import asyncio
import importlib
import logging
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any

from trilith.utils.distributed.pool import Failure, Job, Work
from trilith.utils.distributed.process_pool import ProcessPool

GRACE = 2.0
"""Seconds that a job may still take after its visitor has left. Then its worker is stopped and replaced. Waiting a little is often faster
than starting a new worker."""
PATIENCE = 120.0
"""Maximum seconds that a job waits for a worker. This is long enough for the very first start, when the rules are compiled."""
START_LIMIT = 120.0
"""Maximum seconds for the start of a worker. After that, another worker is started in its place."""
FAILED_STARTS = 3
"""If no worker is running after this many failed starts, jobs are refused at once instead of waiting. The pool still tries to start
workers."""
TICK = 0.2
"""Maximum seconds between two checks of time limits."""
BROKEN = "its worker processes die while they start"

_log = logging.getLogger(__name__)


class Busy(Exception):
    """The queue is full, or no worker became free in time."""


class TooSlow(Exception):
    """The job took longer than the limit and was stopped."""


class Crashed(Exception):
    """The worker died, or the job failed in a way that is not the visitor's fault."""


class Pool:
    """A pool with `size` workers, at most `queue` waiting jobs, and a time limit of `limit` seconds for each job.

    `module` names a module with `JOBS` and a function `prepare`. Each process calls `prepare(*given)` before its first job. The pool runs
    in the event loop; a thread waits for events of the workers.
    """

    def __init__(self, size: int, queue: int, limit: float, module: str = "trilith.web.jobs", given: tuple[Any, ...] = ()) -> None:
        self.size, self.queue, self.given = size, queue, given
        self.ready = asyncio.Event()
        """Set when the first worker is ready."""
        limits = {"max_deaths": 1, "start_seconds": START_LIMIT, "job_seconds": limit, "stall_seconds": inf}
        make = partial(_make_work, module, given)
        self.processes = ProcessPool(make, 0, "worker of the page", queue=1, restart="always", **limits)
        self._answered: dict[Job, asyncio.Event] = {}
        self._serving: asyncio.Task[None] | None = None

    @property
    def broken(self) -> bool:
        """Whether no worker is running after `FAILED_STARTS` or more failed starts."""
        failed = self.processes.failed_starts.total()
        return failed >= FAILED_STARTS and not any(worker.ready for worker in self.processes.workers)

    def start(self, count: int | None = None) -> None:
        """Starts processes until there are `count`, by default `size`. Jobs wait until the first process is ready."""
        self.processes.start(self.size if count is None else count)
        self._serving = self._serving or asyncio.get_running_loop().create_task(self._serve())

    def stop(self) -> None:
        """Ends the processes."""
        if self._serving:
            self._serving.cancel()
        self.processes.close()

    async def run(self, name: str, *arguments: Any) -> Any:
        """Runs the job `name` with these arguments and returns its result. Raises ValueError if the job refuses its arguments, Busy if no
        worker becomes free, TooSlow if the job takes too long, and Crashed if two workers die of it or the job fails otherwise.

        Jobs have no side effects. So if a worker dies, its job is given once to another worker.
        """
        if not self.processes.idle():
            if self.broken:
                raise Crashed(BROKEN)
            if len(self.processes.waiting) >= self.queue:
                raise Busy
        job = self.processes.send((name, arguments))
        answered = self._answered[job] = asyncio.Event()
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(answered.wait(), PATIENCE)
            if job in self.processes.waiting:
                raise Busy
            await answered.wait()
        finally:  # also runs if the visitor left
            del self._answered[job]
            self.processes.cancel(job, GRACE)
        if job.failure is None:
            return job.result
        raise {"refused": ValueError, "late": TooSlow}.get(job.failure.kind, Crashed)(job.failure.text)

    async def _serve(self) -> None:
        """Passes the results of jobs to their callers, and prints notes about workers."""
        while True:
            events = await asyncio.to_thread(self.processes.poll, TICK)
            try:
                finished = self.processes.handle(events)
            except OSError as error:  # a worker could not be started
                _log.warning(error)
                await asyncio.sleep(1.0)
                continue
            for job in list(self.processes.waiting) if self.broken else ():
                self.processes.cancel(job, 0.0)
                job.failure = Failure("died", BROKEN)
                finished.append(job)
            for job in finished:
                self._answered[job].set()
            for note in self.processes.notes:
                _log.warning(note)
            self.processes.notes.clear()
            if any(worker.ready for worker in self.processes.workers):
                self.ready.set()


def _make_work(module: str, given: tuple[Any, ...]) -> Work:
    jobs = importlib.import_module(module)
    jobs.prepare(*given)
    return lambda job, _: jobs.JOBS[job[0]](*job[1])
