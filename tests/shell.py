"""The command line as a user meets it: in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

COMMAND = [sys.executable, "-m", "trilith.cli"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "COLUMNS": "80"}
PATIENCE = 60.0


def trilith(*arguments: object, cwd: Path, **options) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end. A test of one that needs torch is skipped where that is not installed."""
    line = [*COMMAND, *map(str, arguments)]
    done = subprocess.run(line, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, **options)
    if "needs more packages (torch" in done.stderr:
        import torch  # noqa: F401 - see conftest.py
    return done


def launch(*arguments: object, cwd: Path) -> subprocess.Popen[str]:
    """Starts a command in a process group of its own, as a terminal does, heeding Ctrl-C even if these tests do not: a shell's `&`."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    line = [*COMMAND, *map(str, arguments)]
    return subprocess.Popen(line, cwd=cwd, env=ENVIRONMENT, start_new_session=True, preexec_fn=heed, **pipes)


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits for something to come true."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited for {what} in vain"
        time.sleep(0.01)


def gone(group: int) -> bool:
    """Whether no process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def interrupt(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Ctrl-C, which a terminal sends to the whole group: exit code, output, errors."""
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def refused(result: subprocess.CompletedProcess[str]) -> str:
    """The one line that bad input gets, after checking that it is all it gets."""
    assert result.returncode == 2, result
    assert result.stdout == "", "nothing was done"
    assert result.stderr.startswith("trilith: ")
    assert result.stderr.count("\n") == 1, f"one line, not\n{result.stderr}"
    return result.stderr.removeprefix("trilith: ").strip()
