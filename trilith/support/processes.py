"""Starting processes that leave Ctrl-C to the one that started them."""

from __future__ import annotations

import signal
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess


def start_deaf(process: BaseProcess) -> None:
    """Starts a process that Ctrl-C, which reaches all of a terminal, reaches neither while it starts nor later."""
    resource_tracker.ensure_running()  # with the first process, else, which would undo the next line
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # a new process inherits it
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
