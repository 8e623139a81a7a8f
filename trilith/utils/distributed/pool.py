"""Jobs spread over processes of this machine. Knows nothing of blocks."""

from __future__ import annotations

import multiprocessing
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from trilith.utils.distributed.processes import limit_threads, start_deaf

Work = Callable[[Any, Any], Any]
"""What a worker does: (job, shared) -> result; shared is None here, it is for workers on a cluster."""


def spread(make: Callable[[], Work], jobs: Sequence[Any], workers: int) -> Iterator[Any]:
    """Does jobs in so many processes, each of which makes its work first, and yields each result as it is there, in any order.

    With one worker, or one job, it happens here. Raises what a job raised, and ChildProcessError if a process dies.
    """
    if workers < 1:
        raise ValueError(f"{workers} workers: must be 1 or more")
    limit_threads(1)  # here and in workers alike: threads may change a network's last digits
    if workers == 1 or len(jobs) < 2:
        work = make()
        for job in jobs:
            yield work(job, None)
        return
    waiting = iter(jobs)
    crew: dict[Connection, SpawnProcess] = {}
    try:
        for job in islice(waiting, workers):
            with _interrupts_later():
                connection, process = _hire(make)
                crew[connection] = process
            with _alive(process):
                connection.send(job)
        busy = set(crew)
        while busy:
            ready = wait(list(busy))
            for connection in [each for each in busy if each in ready]:
                with _alive(crew[connection]):
                    answer = connection.recv()
                    if (next_job := next(waiting, None)) is not None:
                        connection.send(next_job)
                    else:
                        busy.remove(connection)
                if isinstance(answer, Exception):
                    raise answer
                yield answer
    finally:
        for process in crew.values():
            process.kill()  # they hold nothing that could be lost
        for process in crew.values():
            process.join()


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Ctrl-C counts only when this ends: half a worker could neither be used nor be stopped.

    Blocking the signal would not do, because it may reach any thread of the process, and is then ours all the same.
    """
    if threading.current_thread() is not threading.main_thread():  # which interrupts never reach
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def _hire(make: Callable[[], Work]) -> tuple[Connection, SpawnProcess]:
    """A new worker and the connection to it. Ctrl-C reaches it neither while it starts nor later: it is ours to handle."""
    context = multiprocessing.get_context("spawn")  # a fork would inherit threads' locks
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, make), daemon=True)
    start_deaf(process)
    theirs.close()
    return ours, process


def _serve(connection: Connection, make: Callable[[], Work]) -> None:
    """A worker: does jobs until the other end is gone, also when it was killed."""
    work: Work | None = None
    with suppress(EOFError, ConnectionError):
        while True:
            job = connection.recv()
            answer: Any
            try:
                work = work or make()
                answer = work(job, None)
            except ValueError as error:
                answer = ValueError(str(error))
            except Exception:  # goes on in the main process, with where it happened
                answer = RuntimeError(f"in a worker:\n{traceback.format_exc()}")
            connection.send(answer)


@contextmanager
def _alive(process: SpawnProcess) -> Iterator[None]:
    """While we talk to a worker: raises ChildProcessError, which tells how it died, if it is not there."""
    try:
        yield
    except (EOFError, ConnectionError):
        process.join(5)
        code = process.exitcode
        how = f"killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        how += "; is memory short?" if code == -9 else ""
        raise ChildProcessError(f"a worker died ({how}): what is done is kept, the same command goes on from there") from None
