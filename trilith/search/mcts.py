"""Monte-Carlo tree search by an upper confidence bound (UCT), the search of the paper (§E).

Each simulation selects actions by their upper confidence bounds until it reaches an action that was never simulated. It simulates this
action and backs up the value of the new state. The network estimates this value; there is no random playout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt
from typing import TYPE_CHECKING, Literal

import numpy as np

from trilith.search.tree import A, ActionValues, Node, Path, Prior, S, SearchAlgorithm, TransitionModel, argmax, expand

if TYPE_CHECKING:
    from trilith.world.scene import Floats, Ints


class MCTSNode(Node[S]):
    """A node that also stores a sum of returns, and groups its actions by edge (see `Prior.edges`). In shapes, E is the number of edges."""

    def __init__(self, state: S, prior: Prior) -> None:
        super().__init__(state, prior)
        self.total = 0.0
        """Sum of the returns from this node over all simulations that passed through it."""
        self._edges = prior.edges

    @property
    def value(self) -> float:
        """Estimated return from this node: the mean of the prior value and of the returns of all simulations."""
        return (self.prior_value + self.total) / (1 + self.visits)

    @cached_property
    def first(self) -> Ints:
        """(E + 1,): the index of the first action of each of the E edges (groups of actions), followed by the number of actions."""
        new = np.ones(len(self._edges), dtype=bool)
        new[1:] = self._edges[1:] != self._edges[:-1]
        return np.append(np.flatnonzero(new), len(new))

    @cached_property
    def edge_values(self) -> Floats:
        """(E,): for each edge (group of actions), the highest value among its actions."""
        return np.maximum.reduceat(self.values, self.first[:-1])

    @cached_property
    def edge_counts(self) -> Floats:
        """(E,): for each edge (group of actions), the sum of the counts of its actions."""
        return np.add.reduceat(self.counts, self.first[:-1])

    def update(self, action: int, value: float) -> None:
        """Adds 1 to the count of an action, sets its value, and updates the value and the count of its edge."""
        self.values[action] = value
        self.counts[action] += 1
        edge = self.first.searchsorted(action, side="right") - 1
        actions = slice(self.first[edge], self.first[edge + 1])
        self.edge_values[edge] = self.values[actions].max()
        self.edge_counts[edge] = self.counts[actions].sum()


@dataclass(frozen=True)
class MCTS(SearchAlgorithm):
    """UCT, see the module. The decision is the action with the highest value."""

    c: float = 0.1
    """Exploration constant, in units of reward; the paper uses 2."""
    stages: Literal[1, 2] = 2
    """2, as in the paper: select an edge (a group of actions) by its best action, then an action of this edge. 1: select among all
    actions."""

    node_type = MCTSNode

    def search(
        self,
        valuer: ActionValues[S, A],
        model: TransitionModel[S, A],
        roots: Sequence[MCTSNode[S]],
        rngs: Sequence[np.random.Generator],
        budget: int,
    ) -> None:
        """Makes `budget` simulations in each tree. A simulation that reaches a known end of the episode needs no call of the transition
        model."""
        for root in roots:
            self.start(root, budget)
        for _ in range(budget):
            paths = [self.select(root, rng) for root, rng in zip(roots, rngs, strict=True)]
            expand(valuer, model, paths)
            for path in paths:
                back_up(path, valuer.discount)

    def start(self, root: MCTSNode[S], budget: int) -> None:
        """Called for each root before a search. UCT has nothing to prepare."""

    def select(self, root: MCTSNode[S], rng: np.random.Generator) -> Path[MCTSNode[S]]:
        """Selects the path of one simulation. The path ends with an action that was never simulated, that ends the episode, or
        that leads to a state without actions. The path is empty if the root has no actions."""
        path: Path[MCTSNode[S]] = []
        node: MCTSNode[S] | None = root
        while node is not None and len(node.values):
            path.append((node, self.select_action(node, rng)))
            node = node.children.get(path[-1][1])
        return path

    def select_action(self, node: MCTSNode[S], rng: np.random.Generator) -> int:
        """The action with the highest upper confidence bound."""
        width = self.c * sqrt(log(len(node.values) + node.visits))
        if self.stages == 1:
            return argmax(node.values + width / np.sqrt(node.counts), rng)
        edge = argmax(node.edge_values + width / np.sqrt(node.edge_counts), rng)
        first, last = node.first[edge], node.first[edge + 1]
        return int(first) + argmax(node.values[first:last] + width / np.sqrt(node.counts[first:last]), rng)


def back_up(path: Path[MCTSNode[S]], discount: float) -> None:
    """Backs up a simulation: adds its return to every node of its path, from the last node to the root, and updates the value of the action
    taken there. A path is a list of (node, action) from the root down."""
    leaf = path[-1][0].children[path[-1][1]] if path else None
    returned = leaf.prior_value if leaf else 0.0
    for node, action in reversed(path):
        reward, child = node.rewards[action], node.children[action]
        weight = discount * child.continue_probability if child else 0.0
        returned = reward + weight * returned
        node.visits += 1
        node.total += returned
        node.update(action, reward + weight * child.value if child else reward)
