"""Worker processes with a bounded queue and a time limit, so that no request, however slow, holds up the server."""

from __future__ import annotations

import asyncio
import importlib
import logging
import multiprocessing
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from trilith.utils.distributed.processes import limit_threads, start_deaf

GRACE = 2.0
"""Seconds that a job may still take when nobody waits for it any more: stopping a worker costs its successor the time to start."""
PATIENCE = 120.0
"""Seconds that a job waits for a worker at most: long enough for the very first start, when the rules are compiled."""
START_LIMIT = 120.0
"""Seconds that a worker may take to start; then it is stopped, and another one started."""
FAILED_STARTS = 3
"""After so many in a row, with no worker that works, jobs are refused at once instead of waiting. Starting goes on being tried."""
LONGEST_DELAY = 5.0
"""Seconds between two tries, at most: what fails at once must not keep a core busy."""
BROKEN = "its worker processes die while they start"

_SPAWN = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
_log = logging.getLogger(__name__)


class Busy(Exception):
    """The queue is full, or no worker became free in time."""


class TooSlow(Exception):
    """The job took longer than the limit and was stopped."""


class Crashed(Exception):
    """The worker died, or the job failed in a way that is not the visitor's fault."""


def _worker(connection: Connection, module: str, given: tuple[Any, ...]) -> None:
    """Answers jobs (name, arguments) with (kind, value) until the other end is gone."""
    limit_threads(1)  # there are as many workers as cores: were each to compute with all of them, they would only wait for each other
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
    """A process, and this end of the pipe to it."""

    def __init__(self, module: str, given: tuple[Any, ...]) -> None:
        self.connection, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_worker, args=(theirs, module, given), daemon=True)
        self.ready = False
        start_deaf(self.process)  # an interrupt is the server's to handle
        theirs.close()

    def started(self) -> bool:
        """Waits until it is ready; False if it dies before, or takes too long."""
        with suppress(EOFError, OSError):
            if self.connection in wait([self.connection, self.process.sentinel], START_LIMIT):
                return bool(self.connection.recv() == "ready")
        return False

    def call(self, job: tuple[str, tuple[Any, ...]]) -> tuple[str, Any]:
        """Sends a job and waits; raises EOFError or OSError when the process is dead, or dies meanwhile."""
        self.connection.send(job)
        return self.connection.recv()

    def kill(self) -> None:
        self.process.kill()
        self.process.join(5)


class Pool:
    """A lane of `size` workers, at most `queue` waiting jobs, and `limit` seconds for each.

    `module` has the `JOBS`, and a function `prepare` that each process calls before its first, with what is `given`. A worker that
    dies is replaced, whatever it was at: starting, idle or with a job. All of this runs in the event loop, except for a thread for
    each worker that waits for its start and then for its death.
    """

    def __init__(self, size: int, queue: int, limit: float, module: str = "trilith.web.jobs", given: tuple[Any, ...] = ()) -> None:
        self.size, self.queue, self.limit, self.module, self.given = size, queue, limit, module, given
        self.ready = asyncio.Event()
        """Set once a worker has been ready."""
        self._workers: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._waiting: deque[asyncio.Future[_Worker]] = deque()
        self._delayed: set[asyncio.TimerHandle] = set()
        """Starts that are put off, after failed ones."""
        self._failed_starts = 0
        """In a row."""
        self._draining: set[asyncio.Future[None]] = set()
        self._threads = ThreadPoolExecutor(max_workers=2 * size, thread_name_prefix="trilith-web")

    @property
    def broken(self) -> bool:
        """Whether no worker works, and the last ones died while they started."""
        return self._failed_starts >= FAILED_STARTS and not any(worker.ready for worker in self._workers)

    def start(self, count: int | None = None) -> None:
        """Starts all processes, or at most so many more; the first jobs wait until one is ready."""
        for _ in range(self.size - len(self._workers) - len(self._delayed) if count is None else count):
            self._add()

    def stop(self) -> None:
        """Ends the processes."""
        for handle in self._delayed:
            handle.cancel()
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _add(self) -> None:
        worker = _Worker(self.module, self.given)
        self._workers.append(worker)
        loop = asyncio.get_running_loop()

        def watch() -> None:
            with suppress(RuntimeError):  # the server, and so the loop, may be gone
                if worker.started():
                    loop.call_soon_threadsafe(self._begin, worker)
                    wait([worker.process.sentinel])
                loop.call_soon_threadsafe(self._replace, worker)

        threading.Thread(target=watch, daemon=True).start()

    def _begin(self, worker: _Worker) -> None:
        """A worker is ready for its first job."""
        worker.ready = True
        self._failed_starts = 0
        self.ready.set()
        self._release(worker)

    def _release(self, worker: _Worker) -> None:
        """Gives a worker that is free to whoever has waited longest."""
        if worker not in self._workers:  # it died meanwhile
            return
        if self._waiting:
            self._waiting.popleft().set_result(worker)
        else:
            self._idle.append(worker)

    def _replace(self, worker: _Worker) -> None:
        """Another worker for one that is dead or no longer wanted; nothing if that was done already, or when all are stopped."""
        if worker not in self._workers:
            return
        code = worker.process.exitcode
        worker.kill()
        self._workers.remove(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        if worker.ready:
            if code is not None:
                _log.warning("a worker process of the page died (exit code %s): another one is started", code)
            self._add()
            return
        self._failed_starts += 1
        what = f"did not start within {START_LIMIT:g} s" if code is None else f"died while it started (exit code {code})"
        _log.warning("a worker process of the page %s: another one is started", what)
        if self.broken:
            while self._waiting:
                self._waiting.popleft().set_exception(Crashed(BROKEN))
        handle: asyncio.TimerHandle

        def again() -> None:
            self._delayed.discard(handle)
            self._add()

        handle = asyncio.get_running_loop().call_later(min(0.1 * 2**self._failed_starts, LONGEST_DELAY), again)
        self._delayed.add(handle)

    async def _free(self) -> _Worker:
        """A worker that is free, once there is one."""
        if self._idle:
            return self._idle.pop(0)
        if self.broken:
            raise Crashed(BROKEN)
        if len(self._waiting) >= self.queue:
            raise Busy
        found: asyncio.Future[_Worker] = asyncio.get_running_loop().create_future()
        self._waiting.append(found)
        try:
            await asyncio.wait([found], timeout=PATIENCE)
            if not found.done():
                raise Busy
            return found.result()
        except asyncio.CancelledError:  # the visitor went away, perhaps in the very moment in which a worker was free
            if found.done() and found.exception() is None:
                self._release(found.result())
            raise
        finally:
            if not found.done():
                self._waiting.remove(found)

    async def _drain(self, worker: _Worker, call: Future[tuple[str, Any]]) -> None:
        """Waits a little for a job whose answer nobody wants; then its worker is free again, one way or the other."""
        try:
            await asyncio.wait_for(asyncio.wrap_future(call), GRACE)
        except (TimeoutError, EOFError, OSError, asyncio.CancelledError):
            self._replace(worker)
        else:
            self._release(worker)

    async def run(self, name: str, *arguments: Any) -> Any:
        """The result of a job. Raises ValueError if the job refuses its arguments, Busy, TooSlow or Crashed.

        Jobs change nothing, so one whose worker died (perhaps long before, and nobody had noticed) is given to another one, once.
        """
        try:
            kind, value = await self._run(name, arguments)
        except (EOFError, OSError):
            try:
                kind, value = await self._run(name, arguments)
            except (EOFError, OSError):
                raise Crashed("the worker process died") from None
        if kind == "ok":
            return value
        if kind == "bad":
            raise ValueError(value)
        raise Crashed(value)

    async def _run(self, name: str, arguments: tuple[Any, ...]) -> tuple[str, Any]:
        """A job's kind of answer and value. Raises Busy, TooSlow, or EOFError or OSError when the worker died."""
        worker = await self._free()
        call: Future[tuple[str, Any]] = self._threads.submit(worker.call, (name, arguments))
        try:
            answer = await asyncio.wait_for(asyncio.wrap_future(call), self.limit)
        except TimeoutError:
            self._replace(worker)
            raise TooSlow from None
        except (EOFError, OSError):
            self._replace(worker)
            raise
        except asyncio.CancelledError:  # the visitor went away, and the worker is still at it
            draining = asyncio.ensure_future(self._drain(worker, call))
            self._draining.add(draining)
            draining.add_done_callback(self._draining.discard)
            raise
        self._release(worker)
        return answer
