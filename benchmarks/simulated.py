"""Simulated actors for `benchmarks/cluster.py`. They only sleep, and load neither torch nor numba, so that hundreds fit on a machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilith.agents.base import Episode


def make(episodes: Sequence[Episode], step_seconds: float) -> Callable[[tuple[int, int], Any], tuple[int, list[Episode]]]:
    """The work of a simulated actor: a function ((number, count), weights) -> (number, episodes). It draws `count` of `episodes`, seeded by
    `number`, and sleeps `step_seconds` for each of their steps."""

    def work(job: tuple[int, int], weights: Any) -> tuple[int, list[Episode]]:
        number, count = job
        chosen = [episodes[k] for k in np.random.default_rng(number).integers(len(episodes), size=count).tolist()]
        time.sleep(step_seconds * sum(len(each.steps) for each in chosen))
        return number, chosen

    return work
