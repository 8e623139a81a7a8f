"""Jobs that misbehave, for the tests of the worker processes."""

from __future__ import annotations

import os
import time
from typing import Any


def prepare() -> None:
    """Nothing to prepare."""


def _sleep(seconds: float, *rest: Any) -> bytes:
    time.sleep(seconds)
    return b'{"slept":true}'


def _pid() -> int:
    return os.getpid()


def _act(*arguments: Any) -> bytes:
    return _sleep(60.0)


def _refuse() -> bytes:
    raise ValueError("no")


def _fail() -> bytes:
    raise KeyError("surprise")


def _die() -> bytes:
    os._exit(3)


JOBS = {"sleep": _sleep, "pid": _pid, "act": _act, "refuse": _refuse, "fail": _fail, "die": _die}
