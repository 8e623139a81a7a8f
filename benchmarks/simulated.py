"""Actors that only take their time, for `benchmarks/cluster.py`: they load neither torch nor numba, so that hundreds fit on a machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilith.agents.base import Episode


def make(episodes: Sequence[Episode], step_seconds: float) -> Callable[[tuple[int, int], Any], tuple[int, list[Episode]]]:
    """What a simulated actor does: (number, count), weights -> number and so many episodes, after as long as playing them takes."""

    def work(job: tuple[int, int], weights: Any) -> tuple[int, list[Episode]]:
        number, count = job
        chosen = [episodes[k] for k in np.random.default_rng(number).integers(len(episodes), size=count).tolist()]
        time.sleep(step_seconds * sum(len(each.steps) for each in chosen))
        return number, chosen

    return work
