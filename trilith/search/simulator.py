"""The simulator, which is the default transition model. It applies the exact rules of the world.

The interface is `search.tree.TransitionModel`. `agents/dynamics/registry.py` makes the transition model that the option `--world` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trilith.world.episode import State, step
from trilith.world.scene import Placement


@dataclass(frozen=True)
class Simulator:
    """A transition model that simulates placements with the rules of an episode, so that outcomes are exact."""

    zero_on_hit: bool = False
    """Whether the return of an episode becomes 0 if a block touches an obstacle."""

    def steps(self, states: Sequence[State], placements: Sequence[Placement | None]) -> list[tuple[State, float, bool]]:
        """Makes one placement in each state. Returns the next state, the reward, and whether the episode ended."""
        after = [step(state, placement, self.zero_on_hit) for state, placement in zip(states, placements, strict=True)]
        return [(each.state, each.reward, each.state.ended is not None) for each in after]
