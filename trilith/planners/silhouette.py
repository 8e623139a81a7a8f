"""Silhouette: a script after the paper's, and a search over the order of the targets and where glue is worth its price."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count

import numpy as np

from trilith.planners.candidates import CODEC, options, stands
from trilith.planners.registry import plans, scripts
from trilith.world.actions import CLEARANCE, OFFSETS
from trilith.world.episode import State, step
from trilith.world.scene import BLOCK_HEIGHT, SLOTS, Placement, Role, Scene, place
from trilith.world.tasks.silhouette import SAME, filled

MIDDLE = OFFSETS // 2
"""The offset that puts a block right into a target."""
MARGIN = 0.02
"""The script wants the weight of a pile to lie at least this far inside its supports."""
SLACK = 0.1
"""Plain statics is a little stricter than the simulator: what fails it by less than this is simulated all the same."""
OFF = 0.08
"""How far a block may be beside its target, in widths: a tenth is too far, and some overlap is lost in height."""
BUDGET = 600
"""About how many placements the search simulates at most, twice."""
EAGER = 0.8
"""What a target not yet filled counts in the order of the search: below 1, so that of two equal hopes the fuller scene comes first."""


@scripts("silhouette")
def script(scene: Scene) -> Placement | None:
    """The next placement, None when nothing more would stand.

    As in the paper: layer by layer, from the centre to the sides, glue only where a block would not be supported without.
    The paper asks whether the block's own centre of mass is supported; this asks whether the whole pile would stand, and
    within a layer places first what needs no glue, which often balances what would have needed it.
    """
    reach = np.abs(scene.pose[:, 0] - scene.pose[scene.role == Role.TARGET, 0].mean())
    targets = sorted(_open(scene), key=lambda t: (scene.pose[t, 1], reach[t]))
    for height in sorted({float(scene.pose[t, 1]) for t in targets}):
        for sticky in (False, True):
            for target in targets:
                if scene.pose[target, 1] == height and stands(_with(scene, target, sticky), MARGIN):
                    return _onto(scene, target, sticky)
    return None


@plans("silhouette")
def plan(state: State) -> list[Placement]:
    """The best sequence found: first every block in the middle of its target, then, if that does not fill all without glue, off it too.

    A block may lie up to a tenth of its width beside its target, which is often enough to balance what would need glue.
    """
    best, most = _search(state, [], state.total, False, BUDGET)
    return _search(state, best, most, True, BUDGET)[0]


def _search(state: State, best: list[Placement], most: float, shifted: bool, budget: int) -> tuple[list[Placement], float]:
    """A*: a state can at most still earn 1 for every open target, so the search knows when it has found the best there is."""
    tie = count()
    queue: list[tuple[float, int, State, list[Placement]]] = [(0.0, next(tie), state, [])]
    seen: set[bytes] = set()
    while queue and budget > 0:
        _, _, here, done = heapq.heappop(queue)
        if _hope(here) <= most:
            continue
        for placement, forecast in _choices(here.scene, shifted):
            if not stands(forecast, -SLACK):
                continue
            after = step(here, placement).state
            budget -= 1
            if after.total > most:
                best, most = [*done, placement], after.total
            key = _key(after.scene)
            if not after.ended and _hope(after) > most and key not in seen:
                seen.add(key)
                order = -(after.total + EAGER * (_hope(after) - after.total))
                heapq.heappush(queue, (order, next(tie), after, [*done, placement]))
    return best, most


def _choices(scene: Scene, shifted: bool) -> Iterator[tuple[Placement, Scene]]:
    """Placements that fill an open target, and the scene with that block at rest."""
    for target in _open(scene):
        for sticky in (False, True):
            yield _onto(scene, target, sticky), _with(scene, target, sticky)
    if not shifted:
        return
    o = options(scene)
    targets = scene.rows(Role.TARGET)
    for target in targets[~np.asarray(filled(scene), dtype=bool)].tolist():
        (x, y, _), width = scene.pose[target], scene.size[target, 0]
        near = o.safe & (np.abs(o.width - width) <= SAME) & (np.abs(o.rest - y) < BLOCK_HEIGHT / 10) & (np.abs(o.x - x) < OFF * width)
        k = np.flatnonzero(near)
        if len(k):
            for j in sorted({int(k[np.argmin(o.x[k])]), int(k[np.argmax(o.x[k])]), int(k[np.argmax(o.balance[k])])}):
                for sticky in (False, True):
                    placement = o.placement(j, sticky)
                    yield placement, place(scene, placement._replace(y=float(o.rest[j])), keep=True)


def _open(scene: Scene) -> list[int]:
    """Rows of the targets that are not filled and have room for their block."""
    mask = CODEC.mask(scene)[:, :, MIDDLE]
    targets = scene.rows(Role.TARGET)
    return [t for t in targets[~np.asarray(filled(scene), dtype=bool)].tolist() if mask[_slot(scene, t), t]]


def _slot(scene: Scene, target: int) -> int:
    return int(np.argmin(np.abs(scene.size[:SLOTS, 0] - scene.size[target, 0])))


def _onto(scene: Scene, target: int, sticky: bool) -> Placement:
    placement = CODEC.decode(scene, (_slot(scene, target), target, MIDDLE, int(sticky)))
    assert placement is not None
    return placement


def _with(scene: Scene, target: int, sticky: bool) -> Scene:
    """The scene with a block in a target, as it would lie there."""
    placement = _onto(scene, target, sticky)
    return place(scene, placement._replace(y=placement.y - CLEARANCE), keep=True)


def _hope(state: State) -> float:
    """The most a state can still come to."""
    return state.total + min(int(np.count_nonzero(~np.asarray(filled(state.scene), dtype=bool))), state.max_steps - state.steps)


def _key(scene: Scene) -> bytes:
    """States that fill the same targets with the same glue count as one, whatever the order was."""
    blocks = scene.rows(Role.BLOCK)
    rows = np.column_stack([np.rint(scene.pose[blocks, :2] * 10), scene.sticky[blocks]]).astype(np.int64)
    return rows[np.lexsort(rows.T)].tobytes()
