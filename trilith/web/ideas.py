"""What an agent thinks of a state: its best placements and their values."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from trilith.agents.base import Agent, ObjectView, ObjectViews
from trilith.search.agent import SearchAgent, Valuer
from trilith.world.actions import DiscreteRelative
from trilith.world.episode import State, step
from trilith.world.scene import INVALID_EDGE, Placement, Role, clipped

CANDIDATES = 240
"""Placements that the look-ahead tries at most; each costs one or two milliseconds."""
SECONDS = 1.5
"""And the time it takes at most."""
APART = 0.3
"""Metres: of two ideas for the same kind of block that come to rest closer than this only the better is shown."""

TWINS = 4
"""So many times the ideas that are to be shown are asked for, since some may be the same once they are clipped."""


class Idea(NamedTuple):
    """A placement that was thought of."""

    placement: Placement
    value: float
    """In units of reward: what the agent expects from here to the end, or, of a look-ahead, the reward of this one step."""
    visits: int | None = None
    """How often a search tried it."""
    line: tuple[Placement, ...] = ()
    """The placements that would follow: the principal variation of the search."""


@runtime_checkable
class Thinker(Protocol):
    """An agent that can say what it thinks. Plain (placement, value) pairs do as well as `Idea`s."""

    def ideas(self, state: State, rng: np.random.Generator, k: int) -> Sequence[Idea | tuple[Placement, float]]:
        """The `k` best placements, best first."""
        ...


class Thoughts(NamedTuple):
    """What there is to show of an agent's thinking."""

    source: str
    """"agent" if these are its own values, "plan" if they are the steps of its plan, each with what it will earn, "lookahead" if
    physics was asked one placement ahead in its stead."""
    ideas: list[Idea]
    chosen: bool = False
    """Whether the first of them is what the agent would do, good or not."""


@runtime_checkable
class PlansAhead(Protocol):
    """An agent that knows all that it is going to place."""

    def plan(self, state: State) -> list[Placement]:
        """The placements it would make from here on."""
        ...


def think(agent: Agent, state: State, rng: np.random.Generator, k: int) -> Thoughts:
    """The agent's own ideas if it has any, or its plan, otherwise its choice and a look-ahead of one placement.

    Placements are shown where the block would be: clipped, and of two that are the same then only the better.
    """
    if isinstance(agent, Thinker):
        found = [Idea(*each) for each in agent.ideas(state, rng, k * TWINS)]
        return Thoughts("agent", _distinct(state, found)[:k])
    if isinstance(agent, PlansAhead):
        return Thoughts("plan", _planned(state, agent.plan(state)))
    [choice] = agent.act([state], [rng])
    choice = None if choice == INVALID_EDGE else choice
    return Thoughts("lookahead", lookahead(state, rng, k, choice and _seen(choice)), choice is not None)


def views(agent: Agent, state: State) -> list[ObjectView]:
    """What an agent sees of each object, if it sees pictures of them."""
    inner = agent.agent if isinstance(agent, SearchAgent) else agent
    return inner.views(state) if isinstance(inner, ObjectViews) else []


def value_map(agent: Agent, state: State, rng: np.random.Generator, slot: int) -> list[tuple[float, float, float]] | None:
    """What an agent expects of a block like that of `slot` in every place it considers: x, y, value, sticky or not whichever is more.

    None for an agent that keeps no values. One that searches is asked after its search.
    """
    if isinstance(agent, SearchAgent):
        [root] = agent.search([state], [rng])
        valuer, ids, values = agent.agent, root.ids, root.values
    elif isinstance(agent, Valuer) and isinstance(agent, Thinker):  # one without ideas, such as `legal`, expects nothing of anything
        [prior] = agent.priors([state])
        valuer, ids, values = agent, prior.ids, prior.values
    else:
        return None
    width, best = state.scene.size[slot, 0], dict[tuple[float, float], float]()
    for action, value in zip(ids.tolist(), values.tolist(), strict=True):
        placement = valuer.decode(state, action)
        if placement is not None and state.scene.size[placement.slot, 0] == width and math.isfinite(value):
            place = clipped(placement.x, placement.y)
            best[place] = max(value, best.get(place, -math.inf))
    return [(*place, value) for place, value in best.items()]


def _planned(state: State, plan: list[Placement]) -> list[Idea]:
    """The steps of a plan, in its order, each with the reward it will bring."""
    ideas = []
    for placement in plan:
        after = step(state, placement)
        ideas.append(Idea(_seen(placement), float(after.reward)))
        state = after.state
        if state.ended:
            break
    return ideas


def _seen(placement: Placement) -> Placement:
    """A placement where the rules will clip it to."""
    return Placement(placement.slot, *clipped(placement.x, placement.y), placement.sticky)


def _distinct(state: State, ideas: list[Idea]) -> list[Idea]:
    """Ideas, best first, without those that come to the same as a better one: blocks of one width are alike."""
    found: dict[tuple[float, float, float, bool], Idea] = {}
    for idea in ideas:
        seen = _seen(idea.placement)
        key = (float(state.scene.size[seen.slot, 0]), seen.x, seen.y, bool(seen.sticky))
        found.setdefault(key, idea._replace(placement=seen, line=tuple(_seen(each) for each in idea.line)))
    return list(found.values())


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
        yield _seen(codec.decode(scene, (c, r, i, 0)))


def _outcome(state: State, placement: Placement, after: State) -> tuple[float, ...]:
    """Width of the block that was placed, and where it came to rest."""
    row = len(after.scene) - 1 if len(after.scene) > len(state.scene) else placement.slot
    return (float(state.scene.size[placement.slot, 0]), *after.scene.pose[row].tolist())
