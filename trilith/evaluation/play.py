"""Plays whole episodes of an agent, for evaluation, films, validation and recording."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trilith.agents.base import Agent
from trilith.agents.random_agents import LegalAgent
from trilith.utils.checks import require, shortened
from trilith.world.episode import Recording, State, step
from trilith.world.scene import Placement
from trilith.world.trajectory import Trajectory


def play(
    agent: Agent, states: Sequence[State], rngs: Sequence[np.random.Generator], zero_on_hit: bool = False
) -> list[tuple[Recording, State]]:
    """Plays one episode from each state to its end, all in one batch. Returns a recording and the final state of each episode. `rngs` has
    the random generator of each episode. A shipped agent needs states of one task. Raises ValueError if there are more or fewer generators
    than states, or if an argument is not of its type."""
    _check_all("states", states, State, "trilith.State, as trilith.start gives")
    _check_all("rngs", rngs, np.random.Generator, "numpy.random.Generator")
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
    generator of each episode. Each placement is replaced by a random legal one with probability `epsilon`. `name` is stored as
    `Trajectory.agent`."""
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
            for k, placement in zip(rows, choose(who, [now[k][-1] for k in rows], [rngs[k] for k in rows]), strict=True):
                state, reward, _ = step(now[k][-1], placement, zero_on_hit)
                now[k].append(state)
                placements[k].append(placement)
                rewards[k].append(reward)
                explored[k].append(explores[k])
    columns = zip(now, placements, rewards, explored, strict=True)
    return [Trajectory(tuple(passed), tuple(placed), tuple(got), tuple(by_chance), name) for passed, placed, got, by_chance in columns]


def choose(agent: Agent, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> Sequence[Placement | None]:
    """The agent's placement in each state. `rngs` has the random generator of each episode. Raises ValueError if `agent` is not an agent,
    or does not return as many placements as there are states."""
    if isinstance(agent, type) or not callable(getattr(agent, "act", None)):
        raise ValueError(f"agent {shortened(agent)}: must be an object with a method act, such as trilith.load('legal')")
    chosen = agent.act(states, rngs)
    if not isinstance(chosen, Sequence) or len(chosen) != len(states):
        wanted = f"a list of {len(states)}, with a placement or None for each state"
        raise ValueError(f"the method act of {type(agent).__name__} returned {shortened(chosen)}: must be {wanted}")
    return chosen


def _check_all(name: str, values: object, kind: type, wanted: str) -> None:
    """Raises ValueError if the argument `name` is not a sequence of values of the type `kind`, which the message calls `wanted`."""
    wrong = [each for each in values if not isinstance(each, kind)] if isinstance(values, Sequence) else [values]
    if wrong:
        raise ValueError(f"{name} {shortened(wrong[0])}: must be a list in which each is a {wanted}")
