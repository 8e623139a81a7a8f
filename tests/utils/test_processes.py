"""Processes that Ctrl-C does not reach, also where the system has no masks of signals."""

import ctypes
import multiprocessing
import os
import signal
from multiprocessing import resource_tracker
from types import SimpleNamespace

import pytest

from trilith.evaluation.runner import evaluate
from trilith.utils.distributed.processes import hold_interrupts, start_ignoring_sigint


def interrupted(pipe) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    pipe.send("still here")


def test_a_process_started_so_is_not_interrupted():
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=interrupted, args=(theirs,))
    start_ignoring_sigint(process)
    theirs.close()
    assert ours.recv() == "still here"
    process.join()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ()), "here it is heard again"


def test_ctrl_c_is_held_until_the_block_ends():
    passed = []

    def press() -> None:
        with hold_interrupts():
            signal.raise_signal(signal.SIGINT)
            passed.append(True)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            press()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert passed


@pytest.fixture
def windows(monkeypatch) -> list[tuple[object, bool]]:
    """A system without masks of signals, SIGKILL and the like, but with a console that can be told: what it was told."""
    told: list[tuple[object, bool]] = []
    kernel = SimpleNamespace(SetConsoleCtrlHandler=lambda handler, ignore: told.append((handler, ignore)))
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
    monkeypatch.delattr(signal, "pthread_sigmask")
    monkeypatch.delattr(signal, "SIGKILL")
    monkeypatch.setattr(resource_tracker, "ensure_running", lambda: pytest.fail("there is none on Windows"))
    return told


def test_on_windows_the_console_is_told_instead(windows):
    for fails in (False, True):
        started = []

        def start(fails=fails, started=started) -> None:
            started.append([*windows])
            if fails:
                raise OSError("no memory")

        process = SimpleNamespace(start=start)
        if fails:
            with pytest.raises(OSError, match="no memory"):
                start_ignoring_sigint(process)
        else:
            start_ignoring_sigint(process)
        assert started == [[(None, True)]], "told before it starts"
        assert windows == [(None, True), (None, False)], "and taken back after"
        windows.clear()


def test_workers_start_and_stop_on_windows_too(windows, monkeypatch):
    monkeypatch.undo()  # what spawns here is not Windows; only what we call is simulated
    kernel = SimpleNamespace(SetConsoleCtrlHandler=lambda handler, ignore: windows.append((handler, ignore)))
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
    monkeypatch.setattr("trilith.utils.distributed.processes.signal", SimpleNamespace(SIGINT=signal.SIGINT, signal=signal.signal))
    assert evaluate("scripted", "covering", scenes=20, workers=2)["episodes"] == 20
    assert windows == [(None, True), (None, False)] * 2
