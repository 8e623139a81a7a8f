"""Functions for processes: start a process that ignores Ctrl-C, catch signals, limit threads."""

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
    """Starts `process` so that it ignores Ctrl-C from its first moment on. By default Ctrl-C would reach all processes of a terminal.

    SIGINT is blocked in the calling thread during the start (on Windows: ignored), and the new process inherits this setting.
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
def catch_signals(*numbers: int) -> Iterator[threading.Event]:
    """Context manager: yields an event. Inside the `with` block, the given signals set this event and have no other effect. Python handles
    signals only in the main thread; in any other thread, the event is never set."""
    caught = threading.Event()
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, lambda *_: caught.set()) for number in numbers} if main else {}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Context manager: delays Ctrl-C until the `with` block ends. Without it, Ctrl-C during the start of a worker could leave a process
    that nobody stops.

    The signal is caught and raised again later. It is not blocked, because a block holds for one thread only.
    """
    with catch_signals(signal.SIGINT) as pressed:
        yield
    if pressed.is_set():
        signal.raise_signal(signal.SIGINT)


def limit_threads(count: int) -> None:
    """Limits the threads with which torch computes in this process, even if torch is loaded later. Child processes inherit the limit."""
    os.environ["OMP_NUM_THREADS"] = str(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)
