"""Drop: where a block comes to rest if it falls straight down and nothing else moves."""

from __future__ import annotations

import numpy as np

from trilith.utils.compiled import compiled
from trilith.world.geometry.rectangles import Bools, Floats

LEVEL = 0.08
"""Metres: if the tops of two objects differ in height by less than this, a block that lies on both is carried by both. Stacked blocks sink
up to 0.014 m into each other."""
OBSTACLE_GAP = 0.02
"""Metres: a falling block must stay this far away from obstacles. Objects count as touching at a quarter of this distance."""


@compiled
def drop(
    left: float, right: float, bottom: float, top: float, boxes: Floats, sticky: Bools, obstacle: Bools, margin: float
) -> tuple[float, float, float, float, float, float]:
    """Computes how an upright block falls onto N solid objects. Lengths are in metres.

    Args:
        left, right, bottom, top: the sides of the block before its fall.
        boxes: (4, N), left, right, bottom and top of the objects.
        sticky, obstacle: (N,), masks of the objects that are sticky, and of the obstacles.
        margin: an obstacle that lies less than this above or below the space through which the block falls counts as beside it.

    Returns six numbers:
        y of the bottom of the block at rest, 0 on the floor;
        x of the leftmost point at which an object carries the block, inf if none does;
        x of the rightmost such point, -inf if none does;
        1 if a sticky object carries the block, else 0;
        1 if an obstacle carries the block, else 0;
        horizontal gap between the block and the nearest obstacle beside its fall; negative if they overlap in x, inf if there is none.
    """
    west, east, low, high = boxes[0], boxes[1], boxes[2], boxes[3]
    below = bottom + LEVEL / 4
    ground = 0.0
    for i in range(len(high)):
        if west[i] < right and left < east[i] and high[i] <= below:
            ground = max(ground, high[i])
    first, last, clearance = np.inf, -np.inf, np.inf
    on_sticky = on_obstacle = 0.0
    for i in range(len(high)):
        apart = max(west[i] - right, left - east[i])
        if apart < 0 and ground - LEVEL <= high[i] <= below:
            first, last = min(first, max(west[i], left)), max(last, min(east[i], right))
            on_sticky = 1.0 if sticky[i] else on_sticky
            on_obstacle = 1.0 if obstacle[i] else on_obstacle
        if obstacle[i] and high[i] > ground - margin and low[i] < top + margin:
            clearance = min(clearance, apart)
    return ground, first, last, on_sticky, on_obstacle, clearance


@compiled
def drops(
    left: Floats, right: Floats, bottom: Floats, height: float, boxes: Floats, sticky: Bools, obstacle: Bools, margin: float
) -> Floats:
    """(6, K): the six numbers that `drop` returns, for each of K blocks. The blocks do not affect each other.

    `left`, `right` and `bottom` (K,) are the sides of the blocks before their falls, and `height` is the height of every block. The other
    arguments are those of `drop`.
    """
    found = np.empty((6, len(left)))
    for k in range(len(left)):
        into = found[:, k]
        into[0], into[1], into[2], into[3], into[4], into[5] = drop(
            left[k], right[k], bottom[k], bottom[k] + height, boxes, sticky, obstacle, margin
        )
    return found
