"""Sequential halving at the root, and UCT below it (Danihelka et al. 2022, without noise).

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
    """A node of UCT. While it is the root of a search, it also has a schedule."""

    candidates = 0
    """Number of candidates in the last search from this node."""
    schedule: Sequence[int] = ()
    """For each remaining simulation: the number of earlier simulations of the action that it must choose."""


@dataclass(frozen=True)
class Halving(MCTS):
    """Sequential halving; the decision is the best of the actions with the most simulations."""

    max_candidates: int = 8
    """Maximum number of actions that share the first simulations."""

    node_type = HalvingNode

    def start(self, root: Any, budget: int) -> None:
        """Chooses the candidates, and plans the simulations."""
        root.counts[:] = 1  # a kept tree starts with fresh counts
        root.edge_counts[:] = np.diff(root.first)
        root.candidates = min(self.max_candidates, len(root.values), max(budget, 1))
        root.schedule = visit_schedule(root.candidates, budget)

    def select_action(self, node: Any, rng: np.random.Generator) -> int:
        """At the root: the best of the remaining candidates. Below the root: the action with the highest upper confidence bound."""
        if not node.schedule:
            return super().select_action(node, rng)
        left = node.counts == 1 + node.schedule.pop(0)
        return argmax(np.where(left, node.values, -np.inf), rng)

    def decide(self, root: Any, rng: np.random.Generator) -> int | None:
        """The best of the actions with the most simulations. A single candidate can still lose to actions that were never simulated."""
        halved = root.candidates > 1
        return best_action(root, np.where(root.counts == root.counts.max(), root.values, -np.inf) if halved else root.values, rng)


def visit_schedule(candidates: int, budget: int) -> list[int]:
    """(budget,): for each simulation, the number of earlier simulations of its action, if `candidates` actions are halved repeatedly."""
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
