"""How much of the obstacles a placement would cover that is bare: the score of the covering tasks, for thousands of placements."""

from __future__ import annotations

import numpy as np

from trilith.nets.batch import Floats32 as Array
from trilith.support.compiled import compiled
from trilith.world.scene import Floats, Ints, Role

_BLOCK, _OBSTACLE = int(Role.BLOCK), int(Role.OBSTACLE)


def make_stretches(rows: int) -> Floats:
    """Room for the bare stretches of a scene: where each begins and ends, and how high its obstacle is."""
    return np.zeros((4 * rows, 3))


@compiled
def find_bare(stretches: Floats, n: int, pose: Array, size: Array, role: Ints, sides: Floats) -> tuple[int, float]:
    """Fills in the stretches of a scene of n objects that no block is above; returns how many there are, and their whole length.

    `sides` (4, R) are left, right, bottom and top of the objects.
    """
    west, east = sides[0], sides[1]
    from_left = np.argsort(west[:n])
    count, length = 0, 0.0
    for o in range(n):
        if role[o] != _OBSTACLE:
            continue
        begin, end = pose[o, 0] - size[o, 0] / 2, pose[o, 0] + size[o, 0] / 2
        for k in range(n + 1):
            b = from_left[k] if k < n else -1
            if b >= 0 and (role[b] != _BLOCK or pose[b, 1] < pose[o, 1] or east[b] <= begin):
                continue
            stop = min(west[b], end) if b >= 0 else end
            if stop > begin and count < len(stretches):
                stretches[count, 0], stretches[count, 1], stretches[count, 2] = begin, stop, pose[o, 1]
                count += 1
                length += stop - begin
            begin = max(begin, east[b]) if b >= 0 else end
    return count, length


@compiled
def newly_covered(stretches: Floats, count: int, begin: float, end: float, rest: float) -> float:
    """The length that a block from `begin` to `end` covers, with its centre at rest at a height."""
    length = 0.0
    for k in range(count):
        if rest >= stretches[k, 2]:
            length += max(min(end, stretches[k, 1]) - max(begin, stretches[k, 0]), 0.0)
    return length
