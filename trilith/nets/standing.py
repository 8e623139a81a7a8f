"""Whether what stands would bear one block more: plain statics, as `builders/statics.py` states them, for thousands of placements.

Weights are handed down from block to block once for a scene. A further block changes only what lies below it, and only that is
gone through again for each placement.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trilith.builders.options import LEVEL
from trilith.nets.batch import Floats32 as Array
from trilith.support.compiled import compiled
from trilith.world.scene import Floats, Ints, Role

FIRM = 1.0
"""The margin of what cannot topple, and the most that is told, in metres."""
_BLOCK, _FLOOR = int(Role.BLOCK), int(Role.FLOOR)


class Loads(NamedTuple):
    """What the blocks of a scene bear. Those that glue holds together are a group, known by its first row; the last row is the new block's.

    A contact is where a group lies on another.
    """

    group: Ints
    """(R,): the group of each object; in the last row that of the floor."""
    load: Floats
    """(R, 2): of a group: its weight with all that rests on it, and that times where it acts."""
    more: Floats
    """(R, 2): what the new block adds to that. All 0 in between."""
    rests: Floats
    """(R, 2): where the first thing that carries a group begins, and where the last one ends."""
    order: Ints
    """(R,): the groups from the top down, without that of the floor; then -1."""
    pair: Ints
    """(C, 2): of a contact, the group above and the one below."""
    span: Floats
    """(C, 2): where it begins and ends."""
    touch: Ints
    """(C, 2): objects of which the first lies on the second."""


def make_loads(rows: int) -> Loads:
    """Room for what scenes of up to so many objects bear."""
    rows, contacts = rows + 1, 8 * (rows + 1)
    whole, pairs = np.zeros((2, rows), np.int64), np.zeros((2, contacts, 2), np.int64)
    load, more, rests = np.zeros((3, rows, 2))
    return Loads(whole[0], load, more, rests, whole[1], pairs[0], np.zeros((contacts, 2)), pairs[1])


@compiled
def find_touches(loads: Loads, n: int, role: Ints, sides: Floats) -> int:
    """Fills in what lies on what; returns how many such pairs there are. `sides` (4, R) are left, right, bottom and top of the objects."""
    west, east, low, top = sides
    count = 0
    for over in range(n):
        for under in range(n):
            level = over != under and _both(over, under, role) and abs(low[over] - top[under]) < LEVEL
            if level and min(east[over], east[under]) > max(west[over], west[under]) and count < len(loads.touch):
                loads.touch[count, 0], loads.touch[count, 1] = over, under
                count += 1
    return count


@compiled
def weigh(loads: Loads, touches: int, n: int, x: Array, size: Array, role: Ints, sticky: Array, glue: Array, sides: Floats) -> int:
    """Fills in what a scene of n objects bears, of which so many pairs lie on each other; returns how many contacts there are.

    Of the pairs only those count that are blocks, or the floor, by `role`.
    """
    group, load, rests, order = loads.group, loads.load, loads.rests, loads.order
    west, east, _, top = sides
    for i in range(n):
        group[i] = i
    for over in range(n):
        for under in range(n):
            if glue[over, under]:
                _join(group, over, under)
    for k in range(touches):
        over, under = loads.touch[k]
        if (sticky[over] or sticky[under]) and _both(over, under, role):
            _join(group, over, under)
    load[:], loads.more[:], order[:] = 0.0, 0.0, -1
    rests[:, 0], rests[:, 1] = np.inf, -np.inf
    high, floor = np.full(n, -np.inf), -1
    for i in range(n):
        group[i] = _root(group, i)
        if role[i] == _FLOOR:
            floor = group[i]
        elif role[i] == _BLOCK:
            area = size[i, 0] * size[i, 1]
            load[group[i], 0] += area
            load[group[i], 1] += area * x[i]
            high[group[i]] = max(high[group[i]], top[i])
    contacts = 0
    for k in range(touches):
        over, under = loads.touch[k]
        if group[over] != group[under] and _both(over, under, role):
            contacts = lay(loads, contacts, group[over], group[under], max(west[over], west[under]), min(east[over], east[under]))
    if floor >= 0:
        high[floor] = -np.inf  # what holds to it never topples
    group[-1] = floor
    for k in range(n):
        g = int(high.argmax())
        if high[g] == -np.inf:
            break
        high[g], order[k] = -np.inf, g
        _hand_down(loads, contacts, g, load[g, 0], load[g, 1], 1.0, load)
    return contacts


@compiled
def margin(loads: Loads, touches: int, n: int, x: Array, size: Array, role: Ints, sticky: Array, glue: Array, sides: Floats) -> float:
    """By how much everything in a scene stands; the rest as `weigh`."""
    weigh(loads, touches, n, x, size, role, sticky, glue, sides)
    least = FIRM
    for g in loads.order:
        if g < 0:
            break
        at = loads.load[g, 1] / loads.load[g, 0] if loads.load[g, 0] > 0 else np.inf
        least = min(least, at - loads.rests[g, 0], loads.rests[g, 1] - at)
    return least


@compiled
def lay(loads: Loads, contacts: int, over: int, under: int, begin: float, end: float) -> int:
    """Adds a contact, if there is room; returns how many there are."""
    if contacts == len(loads.pair):
        return contacts
    loads.pair[contacts, 0], loads.pair[contacts, 1] = over, under
    loads.span[contacts, 0], loads.span[contacts, 1] = begin, end
    loads.rests[over, 0] = min(loads.rests[over, 0], begin)
    loads.rests[over, 1] = max(loads.rests[over, 1], end)
    return contacts + 1


@compiled
def margins(loads: Loads, base: int, contacts: int, weight: float, x: float) -> tuple[float, float]:
    """By how much everything below a new block would still stand, without glue at the new one and with it; negative: something topples.

    Contacts from `base` on are those of the new block, whose middle is at x.
    """
    new = len(loads.group) - 1
    carrier, one = loads.pair[base, 1], True
    for c in range(base, contacts):
        one = one and loads.pair[c, 1] == carrier
    if one and carrier == loads.group[new]:
        return FIRM, FIRM
    _hand_down(loads, contacts, new, weight, weight * x, 1.0, loads.more)
    loose = _worst(loads, base)
    if not one or (loads.rests[new, 0] <= x and x <= loads.rests[new, 1]):
        return loose, loose
    _add(loads.more, carrier, weight, x)  # the new block and what carries it would be one
    return loose, _worst(loads, base)


@compiled
def _worst(loads: Loads, contacts: int) -> float:
    """The least margin of groups that have `more` to bear, which is handed down, and 0 afterwards."""
    load, more, rests = loads.load, loads.more, loads.rests
    worst = FIRM
    for g in loads.order:
        if g < 0:
            break
        if more[g, 0] == 0 and more[g, 1] == 0:
            continue
        weight, moment = load[g, 0] + more[g, 0], load[g, 1] + more[g, 1]
        x = moment / weight if weight > 0 else np.inf
        worst = min(worst, x - rests[g, 0], rests[g, 1] - x)
        _hand_down(loads, contacts, g, load[g, 0], load[g, 1], -1.0, more)
        _hand_down(loads, contacts, g, weight, moment, 1.0, more)
    more[:] = 0.0
    return max(worst, -FIRM)


@compiled
def _hand_down(loads: Loads, contacts: int, g: int, weight: float, moment: float, sign: float, to: Floats) -> None:
    """Adds the load of a group, times `sign`, to what carries it: to the one support under it, or to the two on either side, as a lever
    would."""
    if weight <= 0 or loads.rests[g, 0] > loads.rests[g, 1]:
        return
    x = min(max(moment / weight, loads.rests[g, 0]), loads.rests[g, 1])
    before = behind = -1
    for c in range(contacts):
        if loads.pair[c, 0] == g:
            if loads.span[c, 0] <= x and x <= loads.span[c, 1]:
                _add(to, loads.pair[c, 1], sign * weight, x)
                return
            if loads.span[c, 1] < x and (before < 0 or loads.span[c, 1] > loads.span[before, 1]):
                before = c
            if loads.span[c, 0] > x and (behind < 0 or loads.span[c, 0] < loads.span[behind, 0]):
                behind = c
    if before < 0 or behind < 0:
        return
    one, two = loads.span[before, 1], loads.span[behind, 0]
    part = (x - one) / (two - one)
    _add(to, loads.pair[before, 1], sign * weight * (1 - part), one)
    _add(to, loads.pair[behind, 1], sign * weight * part, two)


@compiled
def _add(to: Floats, group: int, weight: float, x: float) -> None:
    to[group, 0] += weight
    to[group, 1] += weight * x


@compiled
def _both(over: int, under: int, role: Ints) -> bool:
    """Whether both are there: a block, and one that carries it or the floor."""
    return role[over] == _BLOCK and (role[under] == _BLOCK or role[under] == _FLOOR)


@compiled
def _join(group: Ints, one: int, other: int) -> None:
    a, b = _root(group, one), _root(group, other)
    group[max(a, b)] = min(a, b)


@compiled
def _root(group: Ints, k: int) -> int:
    while group[k] != k:
        k = group[k]
    return k
