"""A pool whose workers are processes on this machine, each connected by a pipe."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import inf
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import Any

from trilith.utils.checks import require
from trilith.utils.distributed.pool import BEAT_SECONDS, Alive, Died, Done, Event, Job, Pool, Ready, Work, Worker, attempt, do_all
from trilith.utils.distributed.processes import limit_threads, start_ignoring_sigint

_SPAWN = multiprocessing.get_context("spawn")  # a fork would inherit locks that other threads hold


class ProcessWorker(Worker):
    """A worker process. One thread writes to its pipe and another reads from it, so a slow process with a full pipe does not block
    the pool."""

    def __init__(self, number: int, what: str, make: Callable[[], Work], events: SimpleQueue[Event]) -> None:
        self._pipe, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_serve, args=(theirs, make), daemon=True)
        start_ignoring_sigint(self.process)
        theirs.close()
        super().__init__(number, f"{what} {number} (process {self.process.pid})")
        self._outbox: SimpleQueue[Job | None] = SimpleQueue()
        for target in (self._write, self._read):
            threading.Thread(target=target, args=(events,), daemon=True).start()

    def send(self, job: Job) -> None:
        self._outbox.put(job)

    def kill(self) -> None:
        self._outbox.put(None)
        self.process.kill()

    def exit_status(self) -> str:
        self.process.join(5)
        code = self.process.exitcode
        if code is None or code >= 0:
            return f"exit code {code}"
        return f"killed by {signal.Signals(-code).name}{'; is memory short?' if code == -9 else ''}"

    def _write(self, events: SimpleQueue[Event]) -> None:
        with suppress(OSError):  # the reading thread reports the death
            while job := self._outbox.get():
                message, failure = attempt(pickle.dumps, (job.number, job.content, job.shared))
                if failure:
                    events.put(Done(self, job.number, None, failure))
                else:
                    self._pipe.send_bytes(message)

    def _read(self, events: SimpleQueue[Event]) -> None:
        with suppress(EOFError, OSError):
            while True:
                kind, *fields = self._pipe.recv()
                events.put(kind(self, *fields))
        events.put(Died(self))


class ProcessPool(Pool):
    """A pool of worker processes on this machine."""

    def __init__(self, make: Callable[[], Work], count: int, what: str = "worker", **options: Any) -> None:
        """Starts `count` workers. Each of them calls `make` once, and does its jobs with the function that `make` returns. `make` must be
        picklable. `what` is the word for a worker in notes and errors. The `options` are those of `Pool`.
        """
        super().__init__(what, **options)
        self._make = make
        self._events: SimpleQueue[Event] = SimpleQueue()
        self.start(count)

    def poll(self, timeout: float) -> list[Event]:
        """See `Pool.poll`. May be called from a separate thread."""
        events: list[Event] = []
        with suppress(Empty):
            events.append(self._events.get(timeout=timeout))
            while True:
                events.append(self._events.get_nowait())
        return events

    def _new_worker(self, number: int) -> Worker:
        return ProcessWorker(number, self.what, self._make, self._events)


def spread(make: Callable[[], Work], jobs: Sequence[Any], workers: int) -> Iterator[Any]:
    """Does jobs in at most `workers` processes. Yields each result as soon as it is ready, in any order. With a single worker or fewer than
    two jobs, everything runs in this process. In any case this process is limited to one thread, see `limit_threads`.

    Each process calls `make` once. The function that `make` returns does the jobs; its arguments are a job and None. Raises an error if a
    job fails, and ChildProcessError if a process dies.
    """
    require(workers >= 1, f"{workers} workers: must be 1 or more")
    limit_threads(1)  # here as in workers, because the number of threads may change the last digits of a network's outputs
    if workers == 1 or len(jobs) < 2:
        work = make()
        yield from (work(job, None) for job in jobs)
    else:
        yield from do_all(ProcessPool(make, min(workers, len(jobs)), queue=1, restart="never", stall_seconds=inf), jobs)


def _serve(pipe: Connection, make: Callable[[], Work]) -> None:
    """The main function of a worker process. Does the jobs that come through the pipe, with the function that `make` returns. Ends when the
    other end of the pipe is closed."""
    limit_threads(1)  # there are about as many workers as cores
    jobs: SimpleQueue[tuple[int, Any, Any]] = SimpleQueue()
    lock = threading.Lock()

    def send(*event: Any) -> None:
        with lock, suppress(OSError):
            pipe.send(event)

    def read() -> None:
        """Reads further jobs while the main thread does the current one. Ends this process when the pool's process has ended, even if that
        one was killed."""
        with suppress(EOFError, OSError):
            while True:
                jobs.put(pipe.recv())
        os._exit(1)

    def beat() -> None:
        while True:
            time.sleep(BEAT_SECONDS)
            send(Alive)

    for thread in (read, beat):
        threading.Thread(target=thread, daemon=True).start()
    work, failure = attempt(make)
    send(Ready, failure)
    while True:
        number, content, shared = jobs.get()
        send(Done, number, *attempt(work, content, shared))
