"""One-step lookahead: decides for the agent's best action that does not end the episode by mistake. One or two simulations suffice.

The search rules out actions that are mistakes, and otherwise keeps the agent's ranking of actions. The values of the simulated next states
do not change this ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trilith.search.tree import A, ActionValues, Node, S, SearchAlgorithm, TransitionModel, argmax, expand

FAR_LESS = 0.5
"""An action that ended the episode was a mistake if its reward is less than this fraction of its estimated value. Otherwise the episode may
have ended because the task is complete."""


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
        """Simulates at most `budget` actions of each root, one at a time: always the action with the highest value. Stops at a root when
        this action has already been simulated."""
        for _ in range(budget):
            best = [(root, argmax(root.values, rng)) for root, rng in zip(roots, rngs, strict=True) if len(root.values)]
            new = [(root, action) for root, action in best if action not in root.children]
            if not new:
                return
            expand(valuer, model, [[leaf] for leaf in new])
            for root, action in new:
                back_up(root, action)


def back_up(root: Node[S], action: int) -> None:
    """Counts a simulation of `action` at the root. If the action ended the episode by mistake (see `FAR_LESS`), its value becomes its
    reward. Otherwise its value does not change."""
    root.visits += 1
    root.counts[action] += 1
    if root.likely_child(action) is None and root.rewards[action] < FAR_LESS * root.values[action]:
        root.values[action] = root.rewards[action]
