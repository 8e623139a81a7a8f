"""Search by sequential halving at the root and UCT below it (Danihelka et al. 2022, without Gumbel noise).

The candidates are the root's actions with the highest values. The first simulations are divided equally among the candidates, the
next ones among the better half of the candidates, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import Any

import numpy as np

from trilith.search.mcts import MCTS, MCTSNode
from trilith.search.tree import S, argmax, best_action


class HalvingNode(MCTSNode[S]):
    """A node of UCT. If it is the root of a search, it also has a schedule, which says among which actions each simulation selects."""

    candidates = 0
    """Number of candidates in the last search from this node: the actions among which the first simulations are divided."""
    schedule: Sequence[int] = ()
    """One number for each remaining simulation. A simulation with the number v selects among the actions that have been simulated exactly v
    times. Empty below the root."""


@dataclass(frozen=True)
class Halving(MCTS):
    """Sequential halving. Of the actions with the most simulations, it decides for the one with the highest value."""

    max_candidates: int = 8
    """Maximum number of candidates: actions among which the first simulations are divided."""

    node_type = HalvingNode

    def start(self, root: Any, budget: int) -> None:
        """Prepares a root for a search with `budget` simulations: resets its counts, and sets its number of candidates and its schedule
        (see `HalvingNode`)."""
        root.counts[:] = 1  # a kept tree starts with fresh counts
        root.edge_counts[:] = np.diff(root.first)
        root.candidates = min(self.max_candidates, len(root.values), max(budget, 1))
        root.schedule = visit_schedule(root.candidates, budget)

    def select_action(self, node: Any, rng: np.random.Generator) -> int:
        """The action to simulate. At the root: of the actions that the schedule allows, the one with the highest value. Below the root: the
        action with the highest upper confidence bound."""
        if not node.schedule:
            return super().select_action(node, rng)
        left = node.counts == 1 + node.schedule.pop(0)
        return argmax(np.where(left, node.values, -np.inf), rng)

    def decide(self, root: Any, rng: np.random.Generator) -> int | None:
        """Of the actions with the most simulations, the one with the highest value. If all simulations were of a single candidate: the
        action with the highest value of all, simulated or not. None if there are no actions."""
        halved = root.candidates > 1
        return best_action(root, np.where(root.counts == root.counts.max(), root.values, -np.inf) if halved else root.values, rng)


def visit_schedule(candidates: int, budget: int) -> list[int]:
    """The schedule of a search with `budget` simulations that starts with `candidates` actions and halves them repeatedly. Entry i is the
    number of times that the action of simulation i has been simulated before."""
    if candidates <= 1:
        return list(range(budget))
    rounds, visits, schedule = ceil(log2(candidates)), [0] * candidates, list[int]()
    left = candidates
    while len(schedule) < budget:
        for _ in range(max(1, budget // (rounds * left))):
            schedule += visits[:left]
            visits[:left] = [each + 1 for each in visits[:left]]
        left = max(2, left // 2)
    return schedule[:budget]
