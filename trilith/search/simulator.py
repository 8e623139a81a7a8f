"""The simulator: the default transition model, which applies the exact rules of an episode.

The interface is `search.tree.TransitionModel`. `agents/dynamics/registry.py` makes the transition model that the option `--world` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trilith.world.episode import State, step
from trilith.world.scene import Placement


@dataclass(frozen=True)
class Simulator:
    """A transition model that simulates placements by the rules of an episode. Its outcomes are exact."""

    zero_on_hit: bool = False
    """Whether the return of an episode becomes 0 if a block touches an obstacle."""

    def steps(self, states: Sequence[State], placements: Sequence[Placement | None]) -> list[tuple[State, float, bool]]:
        """Makes one placement in each state. Returns (next state, reward, whether the episode ended) for each."""
        after = [step(state, placement, self.zero_on_hit) for state, placement in zip(states, placements, strict=True)]
        return [(each.state, each.reward, each.state.ended is not None) for each in after]
