"""Drop: where a block comes to rest if it falls straight down and nothing else moves."""

from __future__ import annotations

import numpy as np

from trilith.utils.compiled import compiled
from trilith.world.geometry.rectangles import Bools, Floats

LEVEL = 0.08
"""Metres: if the tops of two objects differ by less than this, both carry a block on them. Stacked blocks sink up to 0.014 into each
other."""
OBSTACLE_GAP = 0.02
"""Metres: a falling block must stay this far away from obstacles. This is four times the distance that counts as touching."""


@compiled
def drop(
    left: float, right: float, bottom: float, top: float, boxes: Floats, sticky: Bools, obstacle: Bools, margin: float
) -> tuple[float, float, float, float, float, float]:
    """The fall of an upright block onto N solid objects. `left`, `right`, `bottom` and `top` are the sides of the block; `boxes` (4, N) are
    the sides of the objects, in the same order; `sticky` (N,) and `obstacle` (N,) are masks.

    Returns six numbers:
        height of the ground that stops the block, 0 on the floor;
        leftmost and rightmost x at which something carries it (inf and -inf: nothing does);
        1 if a sticky object carries it, and 1 if an obstacle does, else 0;
        horizontal gap to the nearest obstacle that is less than `margin` above or below the path (negative: overlap, inf: no obstacle).
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
    """(6, K): the six numbers of `drop` for each of K blocks of equal height. The blocks do not affect each other."""
    found = np.empty((6, len(left)))
    for k in range(len(left)):
        into = found[:, k]
        into[0], into[1], into[2], into[3], into[4], into[5] = drop(
            left[k], right[k], bottom[k], bottom[k] + height, boxes, sticky, obstacle, margin
        )
    return found
