"""Toys to search in whose returns are known, and the world with a prior that is a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trilith.agents.random_agents import LegalAgent
from trilith.search.simulator import Simulator
from trilith.search.tree import Prior
from trilith.world.episode import State, start
from trilith.world.scene import Placement

Word = tuple[int, ...]
"""State of a toy: the actions so far."""


class Toy:
    """Words over `actions` letters up to a length; rewards and priors are tables drawn from a seed. Counts what is simulated."""

    def __init__(self, seed: int = 0, actions: int = 6, length: int = 3, edges: int = 3, discount: float = 0.99) -> None:
        self.seed, self.length, self.discount = seed, length, discount
        self.edges = np.sort(np.arange(actions) % edges)
        self.made: Counter[tuple[Word, int]] = Counter()

    def _table(self, word: Word) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng([self.seed, 99, *word])
        return rng.normal(size=len(self.edges)), rng.normal(size=len(self.edges))

    def priors(self, states: Sequence[Word]) -> list[Prior]:
        return [Prior(self._table(word)[1], self.edges, np.arange(len(self.edges)) + 10) for word in states]

    def decode(self, state: Word, action_id: int) -> int:
        return action_id

    def steps(self, states: Sequence[Word], actions: Sequence[int]) -> list[tuple[Word, float, bool]]:
        return [self.step(state, action) for state, action in zip(states, actions, strict=True)]

    def step(self, state: Word, action: int) -> tuple[Word, float, bool]:
        self.made[state, action] += 1
        after = (*state, action - 10)
        return after, float(self._table(state)[0][action - 10]), len(after) == self.length

    def best(self, word: Word) -> list[float]:
        """True values of the actions, by trying everything."""
        last = len(word) + 1 == self.length
        later = [0.0 if last else self.discount * max(self.best((*word, a))) for a in range(len(self.edges))]
        return [float(reward) + value for reward, value in zip(self._table(word)[0], later, strict=True)]


class Trap(Toy):
    """The greedy prior takes the sweet 1 at once, and gets nothing more. Action 2, of which nothing is expected, leads to 10."""

    def priors(self, states: Sequence[Word]) -> list[Prior]:
        return [Prior(np.array([1.0, 0.5, 0.0]) if not word else np.zeros(3), np.arange(3), np.arange(10, 13)) for word in states]

    def step(self, state: Word, action: int) -> tuple[Word, float, bool]:
        after = (*state, action - 10)
        return after, {(0,): 1.0, (2, 1): 10.0}.get(after, 0.0), len(after) == 2


class Risk(Trap):
    """As a trap, but the way to the 10 is over with three chances in four, as a model may say."""

    def step(self, state: Word, action: int) -> tuple[Word, float, float]:
        after, reward, ended = super().step(state, action)
        return after, reward, 0.75 if after == (2,) else ended


class Table(LegalAgent):
    """Legal actions with values that look like a network's but are exact: a function of the action's id."""

    def priors(self, states: Sequence[State]) -> list[Prior]:
        return [Prior(np.sin(7.0 * prior.ids), prior.edges, prior.ids) for prior in super().priors(states)]


def starts(count: int, task: str = "covering_hard") -> list[State]:
    rng = np.random.default_rng(5)
    return [start(task, "hardest", rng) for _ in range(count)]


@dataclass
class Counting:
    """A simulator that counts its steps."""

    simulator: Simulator
    count: int = 0

    def steps(self, states: Sequence[State], placements: Sequence[Placement | None]) -> list[tuple[State, float, bool]]:
        self.count += len(states)
        return self.simulator.steps(states, placements)
