"""Coverage: the parts of obstacles that lie under blocks."""

from __future__ import annotations

import numpy as np

from trilith.utils.compiled import compiled
from trilith.world.geometry.rectangles import Floats, Ints, extent


@compiled
def covered_pieces(pose: Floats, size: Floats, blocks: Ints, obstacles: Ints) -> Floats:
    """(P, 3): the P covered pieces of the tops of obstacles. Each piece is given as (index into `obstacles`, x of its left end, x of its
    right end). A piece lies under a block whose centre is at or above the centre of the obstacle.

    `blocks` (B,) and `obstacles` (O,) are rows of `pose` (N, 3) and `size` (N, 2). The pieces are ordered by obstacle, and from left to
    right on each obstacle. They do not overlap, because a block adds only its part to the right of the previous pieces.
    """
    left, right, from_left = np.empty(len(blocks)), np.empty(len(blocks)), np.empty(len(blocks), dtype=np.int64)
    for k, b in enumerate(blocks):
        across, _ = extent(size[b, 0], size[b, 1], pose[b, 2])
        left[k], right[k] = pose[b, 0] - across, pose[b, 0] + across
        at = k
        while at > 0 and left[from_left[at - 1]] > left[k]:  # sorts by insertion, because `np.argsort` takes a second to compile
            from_left[at] = from_left[at - 1]
            at -= 1
        from_left[at] = k
    pieces = np.empty((len(obstacles) * len(blocks), 3))
    count = 0
    for k, o in enumerate(obstacles):
        furthest, end = pose[o, 0] - size[o, 0] / 2, pose[o, 0] + size[o, 0] / 2
        for b in from_left:
            begin, stop = max(left[b], furthest), min(right[b], end)
            if pose[blocks[b], 1] >= pose[o, 1] and stop > begin:
                pieces[count, 0], pieces[count, 1], pieces[count, 2] = k, begin, stop
                furthest = stop
                count += 1
    return pieces[:count]


@compiled
def covered_lengths(pose: Floats, size: Floats, blocks: Ints, obstacles: Ints) -> Floats:
    """(O,): covered length of the top of each of O obstacles, in metres. `blocks` (B,) and `obstacles` (O,) are rows of `pose` (N, 3) and
    `size` (N, 2)."""
    lengths, pieces = np.zeros(len(obstacles)), covered_pieces(pose, size, blocks, obstacles)
    for k in range(len(pieces)):
        lengths[int(pieces[k, 0])] += pieces[k, 2] - pieces[k, 1]
    return lengths
