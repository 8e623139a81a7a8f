"""Playing whole episodes: the one function by which agents are measured, watched and validated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trilith.agents.base import Agent
from trilith.world.episode import Recording, State, step
from trilith.world.scene import Placement


def play(
    agent: Agent, states: Sequence[State], rngs: Sequence[np.random.Generator], forfeit: bool = False
) -> list[tuple[Recording, State]]:
    """Episodes from their starts to their ends, side by side: each as a recording and its last state."""
    now = list(states)
    placements: list[list[Placement | None]] = [[] for _ in states]
    while running := [k for k, state in enumerate(now) if not state.ended]:
        for k, placement in zip(running, agent.act([now[k] for k in running], [rngs[k] for k in running]), strict=True):
            placements[k].append(placement)
            now[k] = step(now[k], placement, forfeit).state
    return [(Recording(first, tuple(placed), forfeit), last) for first, placed, last in zip(states, placements, now, strict=True)]
