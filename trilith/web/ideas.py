"""What an agent thinks of a state: its best placements and their values."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from trilith.agents.base import Agent
from trilith.world.actions import DiscreteRelative
from trilith.world.episode import State, step
from trilith.world.scene import INVALID_EDGE, Placement, Role

CANDIDATES = 240
"""Placements that the look-ahead tries at most; each costs one or two milliseconds."""
SECONDS = 1.5
"""And the time it takes at most."""
APART = 0.3
"""Metres: of two ideas for the same kind of block that come to rest closer than this only the better is shown."""


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
    chosen: bool = False
    """Whether the first of them is what the agent would do, good or not."""


def think(agent: Agent, state: State, rng: np.random.Generator, k: int) -> Thoughts:
    """The agent's own ideas if it has any, otherwise its choice and a look-ahead of one placement."""
    if isinstance(agent, Thinker):
        return Thoughts("agent", [Idea(*each) for each in agent.ideas(state, rng, k)][:k])
    [choice] = agent.act([state], [rng])
    choice = None if choice == INVALID_EDGE else choice
    return Thoughts("lookahead", lookahead(state, rng, k, choice), choice is not None)


def lookahead(state: State, rng: np.random.Generator, k: int, first: Placement | None = None) -> list[Idea]:
    """The `k` legal relative placements with the highest reward of those that were tried, best first, but `first` before all.

    The middles of targets are tried, where a reward is likely, then others at random; what ends the episode badly is left
    out, and what leads to about the same as a better one, and what earns nothing if anything does. Blocks of one width are
    alike, so only the first available slot of each is tried, and none is sticky.
    """
    found: list[tuple[Idea, tuple[float, ...]]] = []
    best: list[Idea] = []
    shown: list[tuple[float, ...]] = []
    if first is not None:
        after = step(state, first)
        best.append(Idea(first, float(after.reward)))
        shown.append(_outcome(state, first, after.state))
    stop = time.monotonic() + SECONDS
    for placement in _candidates(state, rng):
        after = step(state, placement)
        if after.state.ended in (None, "complete", "max_steps"):
            found.append((Idea(placement, float(after.reward)), _outcome(state, placement, after.state)))
        if time.monotonic() > stop:
            break
    found.sort(key=lambda each: (-round(each[0].value, 6), each[0].placement.y))
    for idea, outcome in found:
        if len(best) >= k or (best and idea.value <= 0 < best[-1].value):
            break
        if all(outcome[0] != other[0] or math.dist(outcome, other) > APART for other in shown):
            best.append(idea)
            shown.append(outcome)
    return best


def _candidates(state: State, rng: np.random.Generator) -> Iterator[Placement]:
    """Legal relative placements, the likely ones first."""
    codec, scene = DiscreteRelative(), state.scene
    mask = codec.mask(scene)
    seen: set[float] = set()
    for slot in range(len(mask)):
        width = float(scene.size[slot, 0])
        if width in seen:
            mask[slot] = False
        elif mask[slot].any():
            seen.add(width)
    choices = np.argwhere(mask)
    likely = (scene.role[choices[:, 1]] == Role.TARGET) & (np.abs(choices[:, 2] - codec.offsets // 2) <= 1)
    for c, r, i in choices[np.lexsort([rng.random(len(choices)), ~likely])[:CANDIDATES]].tolist():
        yield codec.decode(scene, (c, r, i, 0))


def _outcome(state: State, placement: Placement, after: State) -> tuple[float, ...]:
    """Width of the block that was placed, and where it came to rest."""
    row = len(after.scene) - 1 if len(after.scene) > len(state.scene) else placement.slot
    return (float(state.scene.size[placement.slot, 0]), *after.scene.pose[row].tolist())
