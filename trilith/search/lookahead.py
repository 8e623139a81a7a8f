"""One-step lookahead: the agent's first choice that does not end the episode by mistake. One or two simulations suffice.

It removes mistakes from the agent's order of actions. It does not replace that order by values of other states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trilith.search.tree import A, ActionValues, Node, S, SearchAlgorithm, TransitionModel, argmax, expand

FAR_LESS = 0.5
"""An episode ended by mistake if its return is less than this share of the expected return. With more, the end may be the goal."""


@dataclass(frozen=True)
class Lookahead(SearchAlgorithm):
    """Simulates the best action. If this action ends the episode by mistake (see `FAR_LESS`), simulates the next best one, and so on."""

    def search(
        self,
        valuer: ActionValues[S, A],
        model: TransitionModel[S, A],
        roots: Sequence[Node[S]],
        rngs: Sequence[np.random.Generator],
        budget: int,
    ) -> None:
        """Simulates at most `budget` actions of each root. Stops when the best action has been simulated."""
        for _ in range(budget):
            best = [(root, argmax(root.values, rng)) for root, rng in zip(roots, rngs, strict=True) if len(root.values)]
            new = [(root, action) for root, action in best if action not in root.children]
            if not new:
                return
            expand(valuer, model, [[leaf] for leaf in new])
            for root, action in new:
                back_up(root, action)


def back_up(root: Node[S], action: int) -> None:
    """Counts a simulation. An action that ended the episode by mistake gets its reward as value; any other keeps its prior value."""
    root.visits += 1
    root.counts[action] += 1
    if root.likely_child(action) is None and root.rewards[action] < FAR_LESS * root.values[action]:
        root.values[action] = root.rewards[action]
