"""Plays whole episodes of an agent, for evaluation, films, validation and recording."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trilith.agents.base import Agent
from trilith.agents.random_agents import LegalAgent
from trilith.utils.checks import require
from trilith.world.episode import Recording, State, step
from trilith.world.scene import Placement
from trilith.world.trajectory import Trajectory


def play(
    agent: Agent, states: Sequence[State], rngs: Sequence[np.random.Generator], zero_on_hit: bool = False
) -> list[tuple[Recording, State]]:
    """Plays one episode from each state to its end, all in one batch. Returns a recording and the final state of each episode. `rngs` has
    the random generator of each episode. Raises ValueError if there are more or fewer generators than states."""
    require(len(rngs) == len(states), f"{len(rngs)} generators for {len(states)} states: there must be one for each")
    played = trajectories(agent, states, rngs, zero_on_hit)
    return [(Recording(each.states[0], each.placements, zero_on_hit), each.states[-1]) for each in played]


def trajectories(
    agent: Agent,
    states: Sequence[State],
    rngs: Sequence[np.random.Generator],
    zero_on_hit: bool = False,
    epsilon: float = 0.0,
    name: str = "",
) -> list[Trajectory]:
    """Plays one episode from each state to its end, all in one batch. Returns the episodes with all their states. `rngs` has the random
    generator of each episode. Each placement is replaced by a random legal one with probability `epsilon`. `name` is the agent's name in
    the result."""
    chance = LegalAgent()
    now = [[state] for state in states]
    placements: list[list[Placement | None]] = [[] for _ in states]
    rewards: list[list[float]] = [[] for _ in states]
    explored: list[list[bool]] = [[] for _ in states]
    while running := [k for k, passed in enumerate(now) if not passed[-1].ended]:
        explores = {k: bool(epsilon) and rngs[k].random() < epsilon for k in running}
        for who, rows in ((agent, [k for k in running if not explores[k]]), (chance, [k for k in running if explores[k]])):
            if not rows:
                continue
            for k, placement in zip(rows, who.act([now[k][-1] for k in rows], [rngs[k] for k in rows]), strict=True):
                state, reward, _ = step(now[k][-1], placement, zero_on_hit)
                now[k].append(state)
                placements[k].append(placement)
                rewards[k].append(reward)
                explored[k].append(explores[k])
    columns = zip(now, placements, rewards, explored, strict=True)
    return [Trajectory(tuple(passed), tuple(placed), tuple(got), tuple(by_chance), name) for passed, placed, got, by_chance in columns]
