"""Starting processes that leave Ctrl-C to the one that started them, and keeping each to its core."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess


def start_deaf(process: BaseProcess) -> None:
    """Starts a process that Ctrl-C, which reaches all of a terminal, reaches neither while it starts nor later."""
    with _without_interrupts():
        process.start()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """While this lasts Ctrl-C is kept from this process, and for good from processes that start: they inherit it."""
    if hasattr(signal, "pthread_sigmask"):  # Linux, macOS
        resource_tracker.ensure_running()  # with the first process, else, which would undo the next line
        masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        return
    import ctypes  # Windows

    listen = ctypes.windll.kernel32.SetConsoleCtrlHandler  # type: ignore[attr-defined, unused-ignore]
    listen(None, True)
    try:
        yield
    finally:
        listen(None, False)


def limit_threads(count: int) -> None:
    """How many threads this process computes with: of a learning framework that is loaded already, or will be."""
    os.environ["OMP_NUM_THREADS"] = str(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)
