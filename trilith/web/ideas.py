"""What an agent thinks of a state: its best placements and their values."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from trilith.actions import DiscreteRelative, legal
from trilith.agent import Agent
from trilith.episode import State, step
from trilith.scene import Placement, Role

CANDIDATES = 240
"""Placements that the look-ahead tries at most; each costs one or two milliseconds."""
SECONDS = 1.5
"""And the time it takes at most."""
APART = 0.3
"""Metres: of two ideas for the same kind of block that are closer than this only the better is shown."""


class Idea(NamedTuple):
    """A placement that was thought of."""

    placement: Placement
    value: float
    """In units of reward: what the agent expects from here to the end, or, of a look-ahead, the reward of this one step."""
    visits: int | None = None
    """How often a search tried it."""
    line: tuple[Placement, ...] = ()
    """How the search would go on after it: its principal line."""


@runtime_checkable
class Thinker(Protocol):
    """An agent that can say what it thinks. Plain (placement, value) pairs do as well as `Idea`s."""

    def ideas(self, state: State, rng: np.random.Generator, k: int) -> Sequence[Idea | tuple[Placement, float]]:
        """The `k` best placements, best first."""
        ...


class Thoughts(NamedTuple):
    """What there is to show of an agent's thinking."""

    source: str
    """"agent" if these are its own values, "lookahead" if physics was asked one placement ahead in its stead."""
    ideas: list[Idea]
    choice: Placement | None
    """What the agent would do, where it is not one to say what else it thinks of."""


def think(agent: Agent, state: State, rng: np.random.Generator, k: int) -> Thoughts:
    """The agent's own ideas if it has any, otherwise its choice and a look-ahead of one placement."""
    if isinstance(agent, Thinker):
        return Thoughts("agent", [Idea(*each) for each in agent.ideas(state, rng, k)][:k], None)
    [choice] = agent.act([state], [rng])
    return Thoughts("lookahead", lookahead(state, rng, k), choice)


def lookahead(state: State, rng: np.random.Generator, k: int) -> list[Idea]:
    """The `k` legal relative placements with the highest reward of those that were tried, best first.

    First the middles of targets are tried, where a reward is likely, then others at random; what ends the episode badly is
    left out. Blocks of one width are alike, so only the first available slot of each is tried.
    """
    codec, scene = DiscreteRelative(), state.scene
    mask = legal(scene, codec)
    seen: set[float] = set()
    for slot in range(len(mask)):
        width = float(scene.size[slot, 0])
        if width in seen or not mask[slot].any():
            mask[slot] = False
        else:
            seen.add(width)
    choices = np.argwhere(mask)
    likely = (scene.role[choices[:, 1]] == Role.TARGET) & (np.abs(choices[:, 2] - codec.offsets // 2) <= 1)
    order = np.lexsort([rng.random(len(choices)), ~likely])[:CANDIDATES]
    found: list[Idea] = []
    stop = time.monotonic() + SECONDS
    for c, r, i in choices[order].tolist():
        placement = codec.decode(scene, (c, r, i, 0))
        if placement is None:
            continue
        after = step(state, placement)
        if after.state.ended in (None, "complete", "max_steps"):
            found.append(Idea(placement, float(after.reward)))
        if time.monotonic() > stop:
            break
    found.sort(key=lambda idea: -idea.value)
    best: list[Idea] = []
    for idea in found:
        if len(best) == k:
            break
        if all(_far(state, idea.placement, other.placement) for other in best):
            best.append(idea)
    return best


def _far(state: State, a: Placement, b: Placement) -> bool:
    same = state.scene.size[a.slot, 0] == state.scene.size[b.slot, 0]
    return not same or abs(a.x - b.x) + abs(a.y - b.y) > APART
