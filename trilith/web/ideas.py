"""The ideas of an agent in a state, for the page: its best placements and their values."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from trilith.agents.base import Agent, ObjectView, ObjectViews
from trilith.search.agent import SearchAgent, Valuer
from trilith.world.actions import DiscreteRelative, first_of_width
from trilith.world.episode import State, step
from trilith.world.scene import INVALID_EDGE, Placement, Role, clipped

LOOKAHEAD_PLACEMENTS = 240
"""Maximum number of placements that the look-ahead tries. Each takes one or two milliseconds."""
LOOKAHEAD_SECONDS = 1.5
"""Maximum time of the look-ahead in seconds."""
IDEAS_APART = 0.3
"""If two blocks of equal width come to rest closer together than this, the look-ahead shows only the better of the two placements. The
distance is computed from x and y in metres and the angle in radians."""
IDEAS_ASKED = 4
"""For each idea to show, this many are requested from the agent, because some may be equal after their positions are clipped to where
blocks may be."""


class Idea(NamedTuple):
    """A placement that an agent considers."""

    placement: Placement
    value: float
    """Expected reward from now to the end of the episode. For a look-ahead or a plan: the reward of this step alone."""
    visits: int | None = None
    """Number of simulations in which a search made this placement; None without search."""
    line: tuple[Placement, ...] = ()
    """The placements that would follow: the principal variation of the search."""


@runtime_checkable
class Thinker(Protocol):
    """An agent that can list its best placements by a method `ideas`. Instead of `Idea`s the method may return plain (placement, value)
    pairs, where the value is the expected reward until the end of the episode."""

    def ideas(self, state: State, rng: np.random.Generator, k: int) -> Sequence[Idea | tuple[Placement, float]]:
        """The `k` best placements, best first."""
        ...


class Thoughts(NamedTuple):
    """The ideas of an agent that the page shows."""

    source: str
    """Where the ideas come from. "agent": the agent's own values; "plan": the steps of its plan, each with its reward; "lookahead": rewards
    of single placements, from the simulator."""
    ideas: list[Idea]
    chosen: bool = False
    """Whether the first idea is the agent's choice, even if others have a higher value."""


@runtime_checkable
class PlansAhead(Protocol):
    """An agent that plans all its placements."""

    def plan(self, state: State) -> list[Placement]:
        """The placements that the agent would make from this state on."""
        ...


def think(agent: Agent, state: State, rng: np.random.Generator, k: int) -> Thoughts:
    """Returns the ideas of an agent to show. A `Thinker` gives its `k` best ideas, and an agent that `PlansAhead` gives its whole plan. For
    any other agent, its choice comes first, unless it stops, and then the best placements of a `lookahead`.

    The position of each placement is clipped to where blocks may be, as the rules do. If two placements of a `Thinker` then have the same
    effect (see `_distinct`), only the better one is shown.
    """
    if isinstance(agent, Thinker):
        found = [Idea(*each) for each in agent.ideas(state, rng, k * IDEAS_ASKED)]
        return Thoughts("agent", _distinct(state, found)[:k])
    if isinstance(agent, PlansAhead):
        return Thoughts("plan", _planned(state, agent.plan(state)))
    [choice] = agent.act([state], [rng])
    choice = None if choice == INVALID_EDGE else choice
    return Thoughts("lookahead", lookahead(state, rng, k, choice and _seen(choice)), choice is not None)


def views(agent: Agent, state: State) -> list[ObjectView]:
    """The agent's views of the objects. The list is empty if the agent does not see images."""
    inner = agent.agent if isinstance(agent, SearchAgent) else agent
    return inner.views(state) if isinstance(inner, ObjectViews) else []


def value_map(agent: Agent, state: State, rng: np.random.Generator, slot: int) -> list[tuple[float, float, float]] | None:
    """Returns (x, y, value) of every position that an agent considers for the block of `slot`, or for another block of the same width. If a
    position has several values, for instance with and without glue, the highest counts.

    Returns None for an agent without values. For an agent that searches, the values are those after its search.
    """
    if isinstance(agent, SearchAgent):
        [root] = agent.search([state], [rng])
        valuer, ids, values = agent.agent, root.ids, root.values
    elif isinstance(agent, Valuer) and isinstance(agent, Thinker):  # leaves out agents such as `legal`, whose values are all 0
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
    """The steps of a plan, in order, each with its reward. The plan begins in `state`, and is cut at the end of the episode."""
    ideas = list[Idea]()
    for placement in plan:
        if not state.ended:
            state, reward, _ = step(state, placement)
            ideas.append(Idea(_seen(placement), float(reward)))
    return ideas


def _seen(placement: Placement) -> Placement:
    """Clips a placement to where blocks may be, as the rules do."""
    return Placement(placement.slot, *clipped(placement.x, placement.y), placement.sticky)


def _distinct(state: State, ideas: list[Idea]) -> list[Idea]:
    """Clips ideas, which must be sorted, best first. Leaves out an idea with the same effect as a better one: the same position and glue,
    and a block of equal width."""
    found: dict[tuple[float, float, float, bool], Idea] = {}
    for idea in ideas:
        seen = _seen(idea.placement)
        key = (float(state.scene.size[seen.slot, 0]), seen.x, seen.y, bool(seen.sticky))
        found.setdefault(key, idea._replace(placement=seen, line=tuple(_seen(each) for each in idea.line)))
    return list(found.values())


def lookahead(state: State, rng: np.random.Generator, k: int, first: Placement | None = None) -> list[Idea]:
    """Simulates legal placements, each relative to an object of the scene. Returns the `k` with the highest reward, best first. If `first`
    is given, it comes before all others, whatever it earns.

    Placements at the middles of targets are tried first, because a reward is likely there, then others at random. Blocks of equal width are
    interchangeable, so only the first available slot of each width is tried, without glue.

    A placement that ends the episode for another reason than complete or max_steps is left out. So is a placement with about the same
    effect as a better one (`IDEAS_APART`). Placements without a positive reward are shown only if there is none with a positive reward.
    """
    found: list[tuple[Idea, tuple[float, ...]]] = []
    best = [] if first is None else [_tried(state, first)[:2]]
    stop = time.monotonic() + LOOKAHEAD_SECONDS
    for placement in _candidates(state, rng):
        idea, outcome, ended = _tried(state, placement)
        if ended in (None, "complete", "max_steps"):
            found.append((idea, outcome))
        if time.monotonic() > stop:
            break
    for idea, outcome in sorted(found, key=lambda each: (-round(each[0].value, 6), each[0].placement.y)):
        if len(best) >= k or (best and idea.value <= 0 < best[-1][0].value):
            break
        if all(outcome[0] != other[0] or math.dist(outcome, other) > IDEAS_APART for _, other in best):
            best.append((idea, outcome))
    return [idea for idea, _ in best]


def _candidates(state: State, rng: np.random.Generator) -> Iterator[Placement]:
    """Yields up to `LOOKAHEAD_PLACEMENTS` legal placements, each relative to an object of the scene. Those at the middles of targets come
    first, then others in random order."""
    codec, scene = DiscreteRelative(), state.scene
    choices = np.argwhere(codec.mask(scene) & first_of_width(scene)[:, None, None])
    likely = (scene.role[choices[:, 1]] == Role.TARGET) & (np.abs(choices[:, 2] - codec.offsets // 2) <= 1)
    for c, r, i in choices[np.lexsort([rng.random(len(choices)), ~likely])[:LOOKAHEAD_PLACEMENTS]].tolist():
        yield _seen(codec.decode(scene, (c, r, i, 0)))


def _tried(state: State, placement: Placement) -> tuple[Idea, tuple[float, ...], str | None]:
    """Simulates a placement. Returns the placement with its reward; the width, x, y and angle of its block at rest; and the reason why the
    episode ended, or None."""
    after, reward, _ = step(state, placement)
    row = len(after.scene) - 1 if len(after.scene) > len(state.scene) else placement.slot
    outcome = (float(state.scene.size[placement.slot, 0]), *after.scene.pose[row].tolist())
    return Idea(placement, float(reward)), outcome, after.ended
