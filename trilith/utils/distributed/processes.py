"""Starting processes that leave Ctrl-C to the process that started them, and keeping each to its core."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess


def start_ignoring_sigint(process: BaseProcess) -> None:
    """Starts a process that ignores Ctrl-C from its first moment on, though Ctrl-C reaches all processes of a terminal.

    A new process inherits that from this one, which ignores Ctrl-C meanwhile.
    """
    listen: Callable[[], object]
    if hasattr(signal, "pthread_sigmask"):  # Linux, macOS
        resource_tracker.ensure_running()  # else the first process would start it, which unblocks the signal
        listen = partial(signal.pthread_sigmask, signal.SIG_SETMASK, signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}))
    else:  # Windows
        set_handler = ctypes.windll.kernel32.SetConsoleCtrlHandler  # type: ignore[attr-defined, unused-ignore]
        set_handler(None, True)
        listen = partial(set_handler, None, False)
    try:
        process.start()
    finally:
        listen()


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Delays Ctrl-C until the block ends: a worker that has half started could neither be used nor be stopped.

    Blocking the signal would not do, because it may reach any thread of the process.
    """
    if threading.current_thread() is not threading.main_thread():  # interrupts never reach the others
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        signal.raise_signal(signal.SIGINT)


def limit_threads(count: int) -> None:
    """Sets how many threads this process computes with, whether torch is loaded already or later."""
    os.environ["OMP_NUM_THREADS"] = str(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)
