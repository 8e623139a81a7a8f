"""Statics: estimates whether a pile of blocks stands, without the simulator. Each block passes its load to the blocks below."""

from __future__ import annotations

import numpy as np

from trilith.utils.compiled import compiled
from trilith.world.geometry.drop import LEVEL
from trilith.world.geometry.rectangles import Bools, Floats, Ints, boxes
from trilith.world.geometry.rigid_groups import rigid_groups


def is_stable(pose: Floats, size: Floats, sticky: Bools, bonded: Bools, margin: float = 0.0) -> bool:
    """Whether N upright objects stay in place. Row 0 is the floor, the other rows are blocks: `pose` (N, 3), `size` (N, 2), `sticky` (N,).

    `bonded` (N, N) is True for pairs that are already bonded. A sticky block is also bonded to everything that it lies on or carries.
    Bonded objects form a rigid group, which is treated as one body. From the top down, each group passes its weight, and the load on it, to
    the groups below that support it. If a support lies under the centre of this force, it gets all of the force. Otherwise the nearest
    support on either side gets a part, as on a lever. A group topples unless the centre of the force lies at least `margin` metres inside
    the range of its supports. A group that includes the floor never topples. Friction, and tension in bonds, are ignored.
    """
    left, right, bottom, top = boxes(pose, size)
    on = (np.abs(bottom[:, None] - top) < LEVEL) & (np.minimum(right[:, None], right) > np.maximum(left[:, None], left))
    group = rigid_groups(bonded | (on & (sticky[:, None] | sticky)))
    over, under = np.nonzero(on & (group[:, None] != group))
    begin, end = np.maximum(left[over], left[under]), np.minimum(right[over], right[under])
    order = np.lexsort((group[under], end, begin))
    weight = size[:, 0] * size[:, 1]
    return _balances(group, top, weight, weight * pose[:, 0], group[over][order], group[under][order], begin[order], end[order], margin)


@compiled
def _balances(
    group: Ints, top: Floats, weight: Floats, moment: Floats, over: Ints, under: Ints, begin: Floats, end: Floats, margin: float
) -> bool:
    """Whether every rigid group balances (see `is_stable`). The number of a group is the lowest row of its objects.

    Args:
        group: (N,), the number of the group of each of N objects; group 0 includes the floor.
        top, weight, moment: (N,), y of the top, weight, and weight times x of each object.
        over, under: (P,), the numbers of two groups for each of P supports: the first rests on the second.
        begin, end: (P,), x of the left and right ends of each support. The supports are sorted by `begin`.
        margin: metres by which the centre of the force on a group must lie inside the range of its supports.
    """
    load, torque, highest = np.zeros(len(group)), np.zeros(len(group)), np.empty(len(group))
    highest[0] = -np.inf
    for k in range(1, len(group)):
        highest[k] = -np.inf
        load[group[k]] += weight[k]
        torque[group[k]] += moment[k]
        highest[group[k]] = max(highest[group[k]], top[k])
    order = np.empty(len(group), dtype=np.int64)
    for k in range(len(group)):
        at = k
        while at > 0 and highest[order[at - 1]] < highest[k]:  # sorts by insertion, because `np.argsort` takes a second to compile
            order[at] = order[at - 1]
            at -= 1
        order[at] = k
    for g in order:
        if g == 0 or group[g] != g:
            continue
        x, leftmost, rightmost = torque[g] / load[g], np.inf, -np.inf
        for s in range(len(over)):
            if over[s] == g:
                leftmost, rightmost = min(leftmost, begin[s]), max(rightmost, end[s])
        if not leftmost + margin <= x <= rightmost - margin:
            return False
        x = min(max(x, leftmost), rightmost)  # a negative margin allows x to lie a little outside
        before, behind, one, two = -np.inf, np.inf, g, g
        for s in range(len(over)):  # the nearest supported points on either side of x; both equal x if a support lies under x
            if over[s] != g:
                continue
            if begin[s] <= x and min(end[s], x) > before:
                before, one = min(end[s], x), under[s]
            if end[s] >= x and max(begin[s], x) < behind:
                behind, two = max(begin[s], x), under[s]
        part = (x - before) / (behind - before) if before < behind else 0.0
        load[one] += load[g] * (1 - part)
        torque[one] += load[g] * (1 - part) * before
        load[two] += load[g] * part
        torque[two] += load[g] * part * behind
    return True
