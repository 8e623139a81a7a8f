"""The transition model by default: the rules of the world themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trilith.world.episode import State, step
from trilith.world.scene import Placement


@dataclass(frozen=True)
class Simulator:
    """The outcome of a placement is that of an episode."""

    forfeit: bool = False
    """Whether all reward is forfeited when an obstacle is touched: the rule by which the episode is played."""

    def steps(self, states: Sequence[State], placements: Sequence[Placement | None]) -> list[tuple[State, float, bool]]:
        """One placement in each state: the next state, the reward, and whether the episode ended."""
        after = [step(state, placement, self.forfeit) for state, placement in zip(states, placements, strict=True)]
        return [(each.state, each.reward, each.state.ended is not None) for each in after]
