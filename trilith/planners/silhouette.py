"""Script and planner for Silhouette. The script resembles the paper's. The planner searches for two things: the order of the targets, and
the blocks that need glue."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count

import numpy as np

from trilith.planners.candidates import CODEC, options, rounded_key, stands
from trilith.planners.registry import plans, scripts
from trilith.world.actions import CLEARANCE, OFFSETS
from trilith.world.episode import State, step
from trilith.world.scene import BLOCK_HEIGHT, SLOTS, Ints, Placement, Role, Scene, place
from trilith.world.tasks.silhouette import SAME, filled

MIDDLE_OFFSET = OFFSETS // 2
"""Index of the horizontal offset with which a block lies exactly in the middle of its target."""
PILE_MARGIN = 0.02
"""Safety margin of the script in metres: every load of a pile must lie at least this far inside its range of support."""
PILE_SLACK = 0.1
"""The planner simulates a placement only if it estimates that the blocks will stand. The estimate is a little stricter than the simulator,
so it lets a load lie up to this many metres outside its supports."""
MAX_SHIFT = 0.08
"""Maximum horizontal shift of a block relative to its target, as a fraction of its width. A target counts as filled at 90 % overlap. A
shift of a tenth would be too far, because some overlap is also lost in height."""
SIMULATION_BUDGET = 600
"""Approximate maximum number of placements that each of the planner's two searches simulates."""
OPEN_TARGET_VALUE = 0.8
"""The search first expands the state with the highest priority: its reward so far, plus this value for each target that can still be
filled. A filled target earns 1. This value is smaller, so of two states that can still reach the same reward, the one with more filled
targets comes first."""


@scripts("silhouette")
def script(scene: Scene) -> Placement | None:
    """The next placement; None when no further block would stand.

    As in the paper, it builds layer by layer, from the centre to the sides, and uses glue only if a block would fall without it. The
    paper checks whether the block's own centre of mass is supported. This script checks whether the whole pile would stand. In a
    layer it first places the blocks that need no glue, because they often balance the others.
    """
    free = _open(scene)
    if not free:
        return None
    aside = np.abs(scene.pose[:, 0] - scene.pose[scene.role == Role.TARGET, 0].mean())
    order = sorted((scene.pose[t, 1], sticky, aside[t], t) for t in free for sticky in (False, True))
    for _, sticky, _, target in order:
        placement, forecast = _fill(scene, target, sticky)
        if stands(forecast, PILE_MARGIN):
            return placement
    return None


@plans("silhouette")
def plan(state: State) -> list[Placement]:
    """The best sequence of placements that two searches find; empty if none gains anything. The first search puts every block in the middle
    of its target. If it does not fill all targets without glue (the highest reward possible), the second search also shifts blocks.

    A target accepts a block that is shifted by almost a tenth of its width. Such a shift often balances a block that would otherwise need
    glue.
    """
    best, most = _search(state, [], state.total, False, SIMULATION_BUDGET)
    return _search(state, best, most, True, SIMULATION_BUDGET)[0]


def _search(state: State, best: list[Placement], most: float, shifted: bool, budget: int) -> tuple[list[Placement], float]:
    """A* search for a sequence of placements that earns more than `best`. Returns the best such sequence, or `best` if it finds none, and
    the sum of rewards at its end.

    Each unfilled target can add at most 1 to the sum. States from which the sum cannot exceed the highest found so far are not expanded.

    Args:
        state: where the search starts.
        best: the best sequence of placements from `state` that is already known.
        most: the sum of rewards at the end of `best`.
        shifted: whether blocks may also be placed beside the middle of their targets.
        budget: approximate maximum number of placements that are simulated.
    """
    tie = count()
    queue: list[tuple[float, int, State, list[Placement]]] = [(0.0, next(tie), state, [])]
    seen: set[bytes] = set()
    while queue and budget > 0:
        _, _, here, done = heapq.heappop(queue)
        if _hope(here) <= most:
            continue
        for placement, forecast in _choices(here.scene, shifted):
            if not stands(forecast, -PILE_SLACK):
                continue
            after = step(here, placement).state
            budget -= 1
            if after.total > most:
                best, most = [*done, placement], after.total
            key = rounded_key(after.scene, 10)
            if not after.ended and _hope(after) > most and key not in seen:
                seen.add(key)
                order = -(after.total + OPEN_TARGET_VALUE * (_hope(after) - after.total))
                heapq.heappush(queue, (order, next(tie), after, [*done, placement]))
    return best, most


def _choices(scene: Scene, shifted: bool) -> Iterator[tuple[Placement, Scene]]:
    """Yields placements that fill a target, each with a forecast of the scene after it, with the block at rest. They put a block in
    the middle of a target, without and with glue. With `shifted`, placements slightly beside the middle follow."""
    yield from (_fill(scene, target, sticky) for target in _open(scene) for sticky in (False, True))
    if not shifted:
        return
    o = options(scene)
    for target in _unfilled(scene).tolist():
        (x, y, _), width = scene.pose[target], scene.size[target, 0]
        near = o.safe & (np.abs(o.width - width) <= SAME) & (np.abs(o.rest - y) < BLOCK_HEIGHT / 10) & (np.abs(o.x - x) < MAX_SHIFT * width)
        k = np.flatnonzero(near)
        if len(k):
            for j in sorted({int(k[np.argmin(o.x[k])]), int(k[np.argmax(o.x[k])]), int(k[np.argmax(o.balance[k])])}):
                for sticky in (False, True):
                    placement = o.placement(j, sticky)
                    yield placement, place(scene, placement._replace(y=float(o.rest[j])), keep=True)


def _unfilled(scene: Scene) -> Ints:
    """Scene rows of the targets that are not filled."""
    return scene.rows(Role.TARGET)[~filled(scene)]


def _open(scene: Scene) -> list[int]:
    """Scene rows of the targets that are not filled and have room for their block."""
    mask = CODEC.mask(scene)[:, :, MIDDLE_OFFSET]
    return [target for target in _unfilled(scene).tolist() if mask[_slot(scene, target), target]]


def _slot(scene: Scene, target: int) -> int:
    """The first slot whose block has the width of a target. `target` is the scene row of the target."""
    return int(np.argmin(np.abs(scene.size[:SLOTS, 0] - scene.size[target, 0])))


def _fill(scene: Scene, target: int, sticky: bool) -> tuple[Placement, Scene]:
    """The placement of a block of the target's width in the middle of a target, and the scene with that block at rest, without simulation.
    `target` is the row of the target."""
    placement = CODEC.decode(scene, (_slot(scene, target), target, MIDDLE_OFFSET, int(sticky)))
    return placement, place(scene, placement._replace(y=placement.y - CLEARANCE), keep=True)


def _hope(state: State) -> float:
    """Upper bound of the sum of rewards that an episode can reach from a state."""
    return state.total + min(len(_unfilled(state.scene)), state.max_steps - state.steps)
