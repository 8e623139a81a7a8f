"""The replay buffer. It stores episodes, one record per step, and overwrites the oldest steps first. Steps are drawn uniformly, without
priorities."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trilith.agents.base import Episode
from trilith.utils.checks import require
from trilith.world.scene import Ints


def check_length(steps: int) -> None:
    """Raises ValueError if an episode has too many steps for the field `left` of a stored step, which is one byte."""
    require(steps <= 255, f"an episode of {steps} steps: agents and models learn from episodes of at most 255")


class Replay:
    """A ring buffer of steps. Episodes are stored in order, so the next step of an episode is at the next place of the ring."""

    def __init__(self, dtype: np.dtype[Any], megabytes: float, most: int | None = None) -> None:
        """`dtype` is the dtype of a record. The capacity is the number of steps that fit into `megabytes`. It is at most `most`, if given,
        and at least 256."""
        self.dtype = np.dtype([*dtype.descr, ("reward", "f4"), ("left", "u1")])
        """The dtype of a stored step: the fields of a record, `reward`, and `left`. The field `left` is the number of steps to the end of
        the episode, including this one."""
        self.capacity = max(min(int(megabytes * 1e6) // self.dtype.itemsize, most or sys.maxsize), 256)
        self.ring: NDArray[Any] = np.zeros(self.capacity, self.dtype)
        self.added = 0
        """Number of steps added so far, including those that were overwritten. The next step goes to place `added % capacity` of the
        ring."""

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(self, episode: Episode) -> None:
        """Adds an episode. If the ring is full, the oldest steps are overwritten. Raises ValueError if the episode is too long (see
        `check_length`)."""
        steps = len(episode.steps)
        check_length(steps)
        rows = np.zeros(steps, self.dtype)
        for name in episode.steps.dtype.names or ():
            rows[name] = episode.steps[name]
        rows["left"] = np.arange(steps, 0, -1)
        self.ring[(self.added + np.arange(steps)) % self.capacity] = rows
        self.added += steps

    def windows(self, rng: np.random.Generator, size: int, length: int) -> tuple[NDArray[Any], Ints]:
        """Draws `size` windows, each of `length` consecutive steps. Returns an array (size, length) of steps, and an array (size,) with the
        number of real steps in each window.

        Every stored step is equally likely to begin a window; windows are drawn with replacement. If an episode ends within a window, the
        steps after its end are not real: they are copies of the window's first step.
        """
        first = rng.integers(len(self), size=size)
        count = np.minimum(self.ring["left"][first].astype(np.int64), length)
        ahead = np.arange(length)
        at = (first[:, None] + np.where(ahead < count[:, None], ahead, 0)) % self.capacity
        return self.ring[at], count

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns the content of a checkpoint: `ring` has the stored steps as bytes (a view, not a copy), `added` is the number of steps
        added so far."""
        return {"ring": self.ring[: len(self)].view(np.uint8), "added": np.array(self.added)}

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Resumes from a checkpoint, given as the result of the method `state`. Raises ValueError if the stored steps do not fit the dtype
        of this replay, or if their number does not fit the number of steps added."""
        raw, added = np.ascontiguousarray(state["ring"]), state["added"]
        if raw.dtype != np.uint8 or raw.size % self.dtype.itemsize or raw.size // self.dtype.itemsize > self.capacity:
            raise ValueError(f"a replay of {raw.size} bytes does not fit records of {self.dtype.itemsize} bytes")
        rows = raw.reshape(-1).view(self.dtype)
        if added.shape != () or added.dtype.kind not in "iu" or min(int(added), self.capacity) != len(rows):
            raise ValueError(f"a replay of {len(rows)} records cannot have had {added.tolist()} added")
        self.added = int(added)
        self.ring[: len(rows)] = rows
