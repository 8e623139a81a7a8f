"""How much more glue it takes until a silhouette is finished: statics of all its targets filled, for every choice of what is glued.

In Silhouette a block falls, or does not, when what lies on it is too far to one side, and glue could have held it only when it was
placed. So what counts is not whether the scene bears one block more (standing.py), but whether it bears all that are to come.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trilith.nets.batch import Floats32 as Array
from trilith.nets.standing import Loads, find_touches, margin
from trilith.support.compiled import compiled
from trilith.world.scene import BLOCK_HEIGHT, Floats, Ints, Role
from trilith.world.tasks.silhouette import SAME, which_filled

MOST_GLUE = 3
"""More sticky blocks than this are not tried."""
HOPELESS = MOST_GLUE + 1.0
ENOUGH = 0.04
"""By how much a weight has to lie within what carries it, in metres."""
_OFF, _LOW = 0.09, BLOCK_HEIGHT / 10
"""How far beside its target, in widths, and how far above or below it a block may lie."""
_BLOCK, _TARGET = int(Role.BLOCK), int(Role.TARGET)
Given = tuple[Loads, int, int, Array, Array, Ints, Array, Array, Floats]
"""What `margin` is reckoned from."""


class Finish(NamedTuple):
    """What it takes to finish a scene."""

    open: Ints
    """(R,): the rows of the targets that are not filled."""
    loose: Floats
    """(R,): of each of them, how many of the other blocks have to be glued if its own is not."""
    glued: Floats
    """(R,): how many have to be if its own is, which counts."""
    role: Ints
    """(R,): what the objects are when all is finished."""
    sticky: Array
    """(R,): which are sticky then."""


def make_finish(rows: int) -> Finish:
    """Room for a scene of up to so many objects."""
    return Finish(np.zeros(rows, np.int64), np.zeros(rows), np.zeros(rows), np.zeros(rows, np.int64), np.zeros(rows, np.float32))


@compiled
def find_finish(
    finish: Finish, loads: Loads, n: int, pose: Array, size: Array, role: Ints, sticky: Array, glue: Array, sides: Floats
) -> tuple[int, float]:
    """Fills in what it takes; returns how many targets are open, and how many blocks have to be glued at least.

    `loads` is room to reckon in; `sides` (4, R) are left, right, bottom and top of the objects.
    """
    finish.role[:n], finish.sticky[:n] = role[:n], sticky[:n]
    rows, targets = np.flatnonzero(role[:n] == _TARGET), 0
    filled = which_filled(pose, size, np.flatnonzero(role[:n] == _BLOCK), rows)
    for k, row in enumerate(rows):
        if not filled[k] and abs(size[row, 1] - BLOCK_HEIGHT) < SAME:  # those of other tasks are to be reached, not filled
            finish.role[row] = _BLOCK
            finish.open[targets], finish.loose[targets], finish.glued[targets] = row, HOPELESS, HOPELESS
            targets += 1
    touches = find_touches(loads, n, finish.role, sides)
    for k in range(targets):
        finish.role[finish.open[k]] = _TARGET
    given = (loads, touches, n, pose[:, 0], size, finish.role, finish.sticky, glue, sides)
    enough = min(ENOUGH, margin(*given))  # what stands does, whatever is reckoned here
    chosen, least = np.zeros(MOST_GLUE, np.int64), HOPELESS
    for count in range(min(MOST_GLUE, targets) + 1):
        if count > least + 1:
            break
        for k in range(count):
            chosen[k] = k
        more = True
        while more:
            for k in range(count):
                finish.sticky[finish.open[chosen[k]]] = 1.0
            if _can_be_built(finish, targets, enough, given):
                least = min(least, float(count))
                for t in range(targets):
                    if finish.sticky[finish.open[t]] > 0:
                        finish.glued[t] = min(finish.glued[t], count)
                    else:
                        finish.loose[t] = min(finish.loose[t], count)
            for k in range(count):
                finish.sticky[finish.open[chosen[k]]] = 0.0
            more = _next(chosen, count, targets)
    return targets, least


@compiled
def _can_be_built(finish: Finish, targets: int, enough: float, given: Given) -> bool:
    """Whether all open targets can be filled one by one, and everything stands at each step: whatever stands first, then the next."""
    for k in range(targets):
        finish.role[finish.open[k]] = _BLOCK
    left = targets if margin(*given) >= enough else -1
    for k in range(targets):
        finish.role[finish.open[k]] = _TARGET
    before = left + 1
    while 0 < left < before:
        before = left
        for k in range(targets):
            row = finish.open[k]
            if finish.role[row] == _TARGET:
                finish.role[row] = _BLOCK
                if margin(*given) >= enough:
                    left -= 1
                else:
                    finish.role[row] = _TARGET
    for k in range(targets):
        finish.role[finish.open[k]] = _TARGET
    return left == 0


@compiled
def filled_by(finish: Finish, targets: int, pose: Array, size: Array, x: float, rest: float, width: float) -> int:
    """Which of the open targets a block fills that comes to rest at (x, rest); -1: none."""
    for t in range(targets):
        row = finish.open[t]
        if abs(size[row, 0] - width) < SAME and abs(pose[row, 0] - x) < _OFF * width and abs(pose[row, 1] - rest) < _LOW:
            return t
    return -1


@compiled
def _next(chosen: Ints, count: int, among: int) -> bool:
    """The next choice of some among so many, in order; false after the last."""
    k = count - 1
    while k >= 0 and chosen[k] == among - count + k:
        k -= 1
    if k < 0:
        return False
    chosen[k] += 1
    for j in range(k + 1, count):
        chosen[j] = chosen[j - 1] + 1
    return True
