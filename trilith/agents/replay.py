"""A memory of whole episodes, one compact record a step, the oldest forgotten first."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trilith.nets.batch import Layout, Records
from trilith.world.scene import Floats, Ints


class Episode(NamedTuple):
    """What an actor yields: the steps of one episode. The state it ended in has no value, so it is not kept."""

    records: Records
    """(L,): the state before each step."""
    actions: NDArray[np.int32]
    """(L, 4): sender, receiver, offset, sticky."""
    rewards: NDArray[np.float32]
    """(L,)"""
    tried: NDArray[np.int32]
    """(L, K, 4): actions that a search tried in each state, -1 where there are less than K; K is 0 without search."""
    found: NDArray[np.float32]
    """(L, K): the values it found."""
    level: int
    best: float
    """The most there was to earn."""


class Sample(NamedTuple):
    """Transitions over up to n steps."""

    records: Records
    """(B,): states."""
    actions: Ints
    """(B, 4): what was done in them."""
    returns: Floats
    """(B,): discounted sum of the next up to n rewards."""
    following: Records
    """(B,): states after these, where `discounts` is not 0."""
    discounts: Floats
    """(B,): what the value of the following state counts for; 0 if the episode ended before it."""
    tried: Ints
    """(B, K, 4): actions that a search tried, -1 where there are less than K."""
    found: NDArray[np.float32]
    """(B, K): the values it found."""


class Replay:
    """A ring of steps. Episodes are written whole, so the state that follows a step is in the next place of the ring."""

    def __init__(self, layout: Layout, megabytes: float, discount: float, tried: int = 0) -> None:
        self.layout = layout
        self.tried = tried
        """Searched actions that are kept of a step."""
        self.discount = discount
        self.dtype = np.dtype([("state", layout.dtype), ("action", "i4", (4,)), ("reward", "f4"), ("left", "u1")])
        """`left`: steps to the end of the episode, this one included."""
        if tried:
            self.dtype = np.dtype([*self.dtype.descr, ("tried", "i4", (tried, 4)), ("found", "f4", (tried,))])
        self.capacity = max(int(megabytes * 1e6) // self.dtype.itemsize, 256)
        self.ring: NDArray[Any] = np.zeros(self.capacity, self.dtype)
        self.added = 0
        """Steps ever added; the next goes to place `added % capacity`."""

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(self, episode: Episode) -> None:
        """Remembers an episode."""
        steps = len(episode.actions)
        rows = np.zeros(steps, self.dtype)
        rows["state"], rows["action"], rows["reward"] = episode.records, episode.actions, episode.rewards
        rows["left"] = np.arange(steps, 0, -1)
        if self.tried:
            k = min(self.tried, episode.tried.shape[1])
            rows["tried"] = -1
            rows["tried"][:, :k], rows["found"][:, :k] = episode.tried[:, :k], episode.found[:, :k]
        places = (self.added + np.arange(steps)) % self.capacity
        self.ring[places] = rows
        self.added += steps

    def sample(self, rng: np.random.Generator, size: int, n_step: int) -> Sample:
        """Transitions over up to `n_step` steps, all alike likely, with replacement."""
        at = rng.integers(len(self), size=size)
        steps, discount = self.ring[at], self.discount
        left = steps["left"].astype(np.int64)
        returns = np.zeros(size)
        for k in range(n_step):
            there = k < left
            returns += np.where(there, discount**k * self.ring["reward"][(at + k * there) % self.capacity], 0.0)
        goes_on = left > n_step
        following = self.ring["state"][(at + np.where(goes_on, n_step, 0)) % self.capacity]
        discounts = np.where(goes_on, discount**n_step, 0.0)
        tried = steps["tried"].astype(np.int64) if self.tried else np.zeros((size, 0, 4), np.int64)
        found = steps["found"].copy() if self.tried else np.zeros((size, 0), np.float32)
        return Sample(steps["state"], steps["action"].astype(np.int64), returns, following, discounts, tried, found)

    def state(self) -> dict[str, NDArray[Any]]:
        """What a checkpoint keeps, as plain arrays."""
        n = len(self)
        return {"ring": self.ring[:n].view(np.uint8), "added": np.array(self.added)}

    def load(self, state: dict[str, NDArray[Any]]) -> None:
        """Takes back what `state` gave. Raises ValueError if it is not of this layout."""
        raw = state["ring"]
        if raw.size % self.dtype.itemsize or raw.size // self.dtype.itemsize > self.capacity:
            raise ValueError(f"a replay of {raw.size} bytes does not fit records of {self.dtype.itemsize} bytes")
        rows = np.ascontiguousarray(raw).view(self.dtype)
        self.added = int(state["added"].item())
        self.ring[: len(rows)] = rows


def joined(first: Sample, second: Sample) -> Sample:
    """Two samples as one."""
    parts: Any = zip(first, second, strict=True)
    return Sample(*(np.concatenate(part) for part in parts))
