"""Starts processes that leave Ctrl-C to their parent, and limits the threads of a process."""

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
    """Starts a process that ignores Ctrl-C from its first moment on, although Ctrl-C reaches all processes of a terminal.

    This process ignores Ctrl-C meanwhile, and the new process inherits this.
    """
    listen: Callable[[], object]
    if hasattr(signal, "pthread_sigmask"):  # Linux, macOS
        resource_tracker.ensure_running()  # otherwise the first process would start the tracker, which unblocks the signal
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
    """Delays Ctrl-C until the block ends, because a half-started worker could neither be used nor be stopped.

    Blocking the signal is not enough, because it may reach any thread of the process.
    """
    if threading.current_thread() is not threading.main_thread():  # interrupts reach only the main thread
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
