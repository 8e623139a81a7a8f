"""Jobs that misbehave, for the tests of the worker processes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any


def prepare(how: str = "", folder: str = "", times: int = 0) -> None:
    """Prepares nothing, but the first `times` processes, counted in `folder`, die or hang at it."""
    if folder and len(list(Path(folder).iterdir())) < times:
        Path(folder, str(os.getpid())).touch()
        if how == "die":
            os._exit(7)
        time.sleep(600)


def _sleep(seconds: float, *rest: Any) -> bytes:
    time.sleep(seconds)
    return b'{"slept":true}'


def _pid() -> int:
    return os.getpid()


def _threads() -> int:
    import torch

    return torch.get_num_threads()


def _act(*arguments: Any) -> bytes:
    return _sleep(60.0)


def _film(recording: Any, by: str, folder: str) -> bytes:
    Path(folder, "half.gif").touch()
    return _sleep(60.0)


def _refuse() -> bytes:
    raise ValueError("no")


def _fail() -> bytes:
    raise KeyError("surprise")


def _die() -> bytes:
    os._exit(3)


JOBS = {"sleep": _sleep, "pid": _pid, "threads": _threads, "act": _act, "film": _film, "refuse": _refuse, "fail": _fail, "die": _die}
