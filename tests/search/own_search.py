"""A search algorithm of one's own, of which no file of the package knows: best-first search, by `own_search:BestFirst`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trilith.search.tree import Node, Path, SearchAlgorithm, expand


@dataclass(frozen=True)
class BestFirst(SearchAlgorithm):
    """Simulates the untried action with the highest estimated return in the whole tree. An action is worth the best it leads to."""

    max_candidates: int = 8
    """Actions of a state that are tried at most: an option of `SearchConfig`, so `--search.max-candidates` sets it."""

    def search(self, valuer: Any, model: Any, roots: Sequence[Node[Any]], rngs: Sequence[np.random.Generator], budget: int) -> None:
        for _ in range(budget):
            paths = [self.select(root, valuer.discount) for root in roots]
            expand(valuer, model, paths)
            for path in paths:
                back_up(path, valuer.discount)

    def select(self, root: Node[Any], discount: float) -> Path[Node[Any]]:
        """The path to the untried action with the highest estimate; empty if all were tried."""
        return max(self.untried(root, discount), key=lambda found: found[0], default=(0.0, []))[1]

    def untried(self, node: Node[Any], discount: float) -> Iterator[tuple[float, Path[Node[Any]]]]:
        """Estimated return and path of each untried action."""
        for action in np.argsort(-node.values, kind="stable")[: self.max_candidates].tolist():
            if action not in node.children:
                yield node.values[action], [(node, action)]
            elif child := node.children[action]:
                for estimate, path in self.untried(child, discount):
                    yield node.rewards[action] + discount * estimate, [(node, action), *path]


def back_up(path: Path[Node[Any]], discount: float) -> None:
    for node, action in reversed(path):
        child = node.children[action]
        node.values[action] = node.rewards[action] + (discount * child.values.max() if child else 0.0)
        node.counts[action] += 1
        node.visits += 1
