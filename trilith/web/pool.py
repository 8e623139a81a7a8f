"""Worker processes with a bounded queue and a time limit, so that no request, however slow, holds up the server."""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import signal
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

GRACE = 2.0
"""Seconds that a job may still take when nobody waits for it any more: stopping a worker costs its successor the time to start."""
PATIENCE = 120.0
"""Seconds that a job waits for a worker at most: long enough for the very first start, when the rules are compiled."""

_SPAWN = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang


class Busy(Exception):
    """The queue is full, or no worker became free in time."""


class TooSlow(Exception):
    """The job took longer than the limit and was stopped."""


class Crashed(Exception):
    """The worker died, or the job failed in a way that is not the visitor's fault."""


def _worker(connection: Connection, module: str, given: tuple[Any, ...]) -> None:
    """Answers jobs (name, arguments) with (kind, value) until the other end is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the server's to handle
    work = importlib.import_module(module)
    jobs = work.JOBS
    work.prepare(*given)
    connection.send("ready")
    while True:
        try:
            name, arguments = connection.recv()
        except (EOFError, OSError):
            return
        answer: tuple[str, Any]
        try:
            answer = ("ok", jobs[name](*arguments))
        except ValueError as error:
            answer = ("bad", str(error))
        except Exception as error:  # reported to the server, which answers and logs it; the worker lives on
            answer = ("failed", f"{type(error).__name__}: {error}")
        connection.send(answer)


class _Worker:
    def __init__(self, module: str, given: tuple[Any, ...]) -> None:
        self.connection, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_worker, args=(theirs, module, given), daemon=True)
        self.process.start()
        theirs.close()

    def call(self, job: tuple[str, tuple[Any, ...]]) -> tuple[str, Any]:
        """Sends a job and waits; raises EOFError when the process dies meanwhile."""
        self.connection.send(job)
        return self.connection.recv()

    def kill(self) -> None:
        self.process.kill()
        self.process.join(5)


class Pool:
    """A lane of `size` workers, at most `queue` waiting jobs, and `limit` seconds for each.

    `module` has the `JOBS`, and a function `prepare` that each process calls before its first, with what is `given`.
    """

    def __init__(self, size: int, queue: int, limit: float, module: str = "trilith.web.work", given: tuple[Any, ...] = ()) -> None:
        self.size, self.queue, self.limit, self.module, self.given = size, queue, limit, module, given
        self.waiting = 0
        self.ready = asyncio.Event()
        """Set once a worker has been ready."""
        self._workers: list[_Worker] = []
        self._draining: set[asyncio.Future[None]] = set()
        self._idle: asyncio.Queue[_Worker] = asyncio.Queue()
        self._threads = ThreadPoolExecutor(max_workers=2 * size, thread_name_prefix="trilith-web")

    def start(self, count: int | None = None) -> None:
        """Starts all processes, or at most so many more; the first jobs wait until one is ready."""
        for _ in range(self.size - len(self._workers) if count is None else count):
            self._add()

    def stop(self) -> None:
        """Ends the processes."""
        for worker in self._workers:
            worker.kill()
        self._workers.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _add(self) -> None:
        worker = _Worker(self.module, self.given)
        self._workers.append(worker)
        loop = asyncio.get_running_loop()

        def offer() -> None:
            with suppress(EOFError, OSError, RuntimeError):  # it was stopped before it was ready, or the server was
                worker.connection.recv()
                loop.call_soon_threadsafe(self._idle.put_nowait, worker)
                loop.call_soon_threadsafe(self.ready.set)

        threading.Thread(target=offer, daemon=True).start()

    def _replace(self, worker: _Worker) -> None:
        worker.kill()
        if worker in self._workers:  # not while stopping
            self._workers.remove(worker)
            self._add()

    async def _drain(self, worker: _Worker, call: Future[tuple[str, Any]]) -> None:
        """Waits a little for a job whose answer nobody wants; then its worker is free again, one way or the other."""
        try:
            await asyncio.wait_for(asyncio.wrap_future(call), GRACE)
        except (TimeoutError, EOFError, OSError, asyncio.CancelledError):
            self._replace(worker)
        else:
            self._idle.put_nowait(worker)

    async def run(self, name: str, *arguments: Any) -> Any:
        """The result of a job. Raises ValueError if the job refuses its arguments, Busy, TooSlow or Crashed."""
        if self.waiting >= self.queue:
            raise Busy
        self.waiting += 1
        try:
            worker = await asyncio.wait_for(self._idle.get(), PATIENCE)
        except TimeoutError:
            raise Busy from None
        finally:
            self.waiting -= 1
        call: Future[tuple[str, Any]] = self._threads.submit(worker.call, (name, arguments))
        try:
            kind, value = await asyncio.wait_for(asyncio.wrap_future(call), self.limit)
        except TimeoutError:
            self._replace(worker)
            raise TooSlow from None
        except (EOFError, OSError):
            self._replace(worker)
            raise Crashed("the worker process died") from None
        except asyncio.CancelledError:  # the visitor went away, and the worker is still at it
            draining = asyncio.ensure_future(self._drain(worker, call))
            self._draining.add(draining)
            draining.add_done_callback(self._draining.discard)
            raise
        self._idle.put_nowait(worker)
        if kind == "ok":
            return value
        if kind == "bad":
            raise ValueError(value)
        raise Crashed(value)
