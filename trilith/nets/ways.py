"""How many more blocks it takes from a place to a target that nothing reaches yet, past the obstacles: one block a layer, each on the last.

Found for a whole scene at once, from the highest layer of targets down: on a grid along x, and for each width of a block. It is the
geometry by which the planner of Connecting lays its chains (builders/connecting.py), without what it knows of costs.
"""

from __future__ import annotations

import numpy as np

from trilith.builders.connecting import GRIP, REACH
from trilith.builders.options import SAFE
from trilith.nets.batch import KIND_WIDTHS
from trilith.nets.batch import Floats32 as Array
from trilith.support.compiled import compiled
from trilith.world.actions import CLEARANCE
from trilith.world.geometry import contains
from trilith.world.scene import BLOCK_HEIGHT, PLACE_X, Floats, Ints, Role
from trilith.world.tasks.task import SPACING, layer_y

APART = 3
"""Up to so many targets have tables of their own; more than that share one."""
LAYERS = 10
"""Targets are looked for in so many layers."""
NO_WAY = 15.0
"""More blocks than any way has."""
_OFF = 0.2
"""What stands may be this far from where its layer is before it counts as being in the way of the next one."""
_CELL = 0.1
_X, _Y = float(PLACE_X[1]), float(layer_y(0))
_CELLS = round(2 * _X / _CELL) + 1
_WIDTHS = tuple(float(width) for width in KIND_WIDTHS)
_BLOCK, _TARGET, _OBSTACLE = int(Role.BLOCK), int(Role.TARGET), int(Role.OBSTACLE)


def make_ways() -> Array:
    """Room for the ways of a scene: tables of how many blocks are still needed after one of a width in a layer, at a place along x."""
    return np.full((APART, LAYERS, len(_WIDTHS), _CELLS), NO_WAY, np.float32)


@compiled
def find_ways(ways: Array, apart: bool, n: int, pose: Array, size: Array, role: Ints, sides: Floats) -> int:
    """Fills in tables of `ways` for a scene of n objects, and returns how many: one for all targets that are not reached, or, if they are
    to be apart and are few, one for each. `sides` (4, R) are left, right, bottom and top of the objects."""
    unreached = 0
    for t in range(n):
        unreached += role[t] == _TARGET and not _is_reached(t, n, pose, size, role)
    tables = unreached if apart and unreached <= APART else min(unreached, 1)
    ways[:tables] = NO_WAY
    highest = np.full(APART, -1)
    found = 0
    for t in range(n):
        if role[t] == _TARGET and not _is_reached(t, n, pose, size, role):
            layer, table = round((pose[t, 1] - _Y) / SPACING), min(found, tables - 1)
            found += 1
            if 0 <= layer < LAYERS:
                highest[table] = max(highest[table], layer)
                for k in range(len(_WIDTHS)):
                    _fill(ways[table, layer, k], pose[t, 0], _WIDTHS[k] / 2 - REACH, 0.0)
    for table in range(tables):
        _find(ways[table], highest[table], n, pose, size, role, sides)
    return tables


@compiled
def _find(ways: Array, highest: int, n: int, pose: Array, size: Array, role: Ints, sides: Floats) -> None:
    """Fills in a table from the layer of the highest target down."""
    queue, free = np.empty(_CELLS, np.int64), np.empty_like(ways[0])
    for layer in range(highest, -1, -1):
        for k in range(len(_WIDTHS)):
            for above in range(len(_WIDTHS) if layer < highest else 0):
                _from_above(ways[layer, k], free[above], (_WIDTHS[k] + _WIDTHS[above]) / 2 - GRIP, queue)
        free[:] = ways[layer]  # what is looked up is placed there for sure; what is on the way has to fit
        for k in range(len(_WIDTHS)):
            _take_out(free[k], _WIDTHS[k], _Y + SPACING * layer, n, pose, size, role, sides)


@compiled
def needed_by_all(needed: Floats, ways: Array, tables: int, n: int, pose: Array, size: Array, role: Ints) -> float:
    """Fills in, for the target of each table, how many blocks it takes from what stands or from the floor; returns how many altogether.

    A block that is on the way to two targets counts twice.
    """
    total = 0.0
    for table in range(tables):
        needed[table] = min(1 + ways[table, 0].min(), NO_WAY)
        for i in range(n):
            if role[i] == _BLOCK:
                kind = int(np.argmin(np.abs(np.array(_WIDTHS) - size[i, 0])))
                needed[table] = min(needed[table], blocks_needed(ways[table], kind, pose[i, 0], pose[i, 1]))
        total += needed[table]
    return total


@compiled
def blocks_needed(ways: Array, kind: int, x: float, rest: float) -> float:
    """How many more blocks it takes after one of a kind that comes to rest with its centre at (x, rest); NO_WAY if there is no way."""
    layer, cell = round((rest - _Y) / SPACING), round((x + _X) / _CELL)
    return ways[layer, kind, cell] if 0 <= layer < LAYERS and 0 <= cell < _CELLS else NO_WAY  # a model may predict what is no number


@compiled
def _is_reached(t: int, n: int, pose: Array, size: Array, role: Ints) -> bool:
    for i in range(n):
        if role[i] == _BLOCK and contains(pose[i, 0], pose[i, 1], pose[i, 2], size[i, 0], size[i, 1], pose[t, 0], pose[t, 1]):
            return True
    return False


@compiled
def _fill(row: Array, x: float, half: float, value: float) -> None:
    """Sets the cells nearer to x than `half`."""
    first, last = int(np.ceil((x - half + _X) / _CELL)), int(np.floor((x + half + _X) / _CELL))
    for c in range(max(first, 0), min(last, _CELLS - 1) + 1):
        row[c] = value


@compiled
def _from_above(row: Array, above: Array, reach: float, queue: Ints) -> None:
    """Lowers a row to one more than the least of the row above within `reach`: a minimum over a window that slides along."""
    radius = int(reach / _CELL)
    first, last = 0, 0
    for c in range(_CELLS + radius):
        if c < _CELLS:
            while last > first and above[queue[last - 1]] >= above[c]:
                last -= 1
            queue[last] = c
            last += 1
        centre = c - radius
        if centre >= 0:
            while queue[first] < centre - radius:
                first += 1
            row[centre] = min(row[centre], above[queue[first]] + 1, NO_WAY)


@compiled
def _take_out(row: Array, width: float, y: float, n: int, pose: Array, size: Array, role: Ints, sides: Floats) -> None:
    """No way leads through an obstacle, or through what stands."""
    west, east, low, top = sides
    for i in range(n):
        if role[i] == _OBSTACLE:
            if abs(y + CLEARANCE / 2 - pose[i, 1]) < (BLOCK_HEIGHT + CLEARANCE + size[i, 1]) / 2 + SAFE:
                _fill(row, pose[i, 0], (width + size[i, 0]) / 2 + SAFE, NO_WAY)
        elif role[i] == _BLOCK and top[i] > y - BLOCK_HEIGHT / 2 + _OFF and low[i] < y + BLOCK_HEIGHT / 2 - _OFF:
            _fill(row, (west[i] + east[i]) / 2, (width + east[i] - west[i]) / 2, NO_WAY)
