"""What workers of the tests do on a cluster."""

import time
from collections.abc import Callable
from typing import Any


def make_sleeper() -> Callable[[Any, float], Any]:
    return sleep


def sleep(job: Any, seconds: float) -> Any:
    time.sleep(seconds)
    return job
