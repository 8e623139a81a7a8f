"""Where a placement would come to rest if nothing else moved, as features of about 1: ours, the paper's networks see objects only.

The block falls straight down until it meets something. It is the forecast that builders choose by (builders/options.py), for
many scenes at once, from what a batch holds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trilith.builders.options import LEVEL, SAFE
from trilith.nets.bare import find_bare, make_stretches, newly_covered
from trilith.nets.batch import KIND_WIDTHS, Arrays, Layout
from trilith.nets.batch import Floats32 as Array
from trilith.nets.config import NetConfig
from trilith.nets.describe import SCALE
from trilith.nets.finish import HOPELESS, Finish, filled_by, find_finish, make_finish
from trilith.nets.standing import FIRM, Loads, find_touches, lay, make_loads, margins, weigh
from trilith.nets.ways import APART, NO_WAY, blocks_needed, find_ways, make_ways, needed_by_all
from trilith.support.compiled import compiled
from trilith.world.actions import height_on, offset
from trilith.world.scene import BLOCK_HEIGHT, PLACE_X, Floats, Ints, Role

PLACE_FEATURES = 11
"""Of a placement: centre x, height at rest, drop, balance (twice, the second sharp around 0), whether something sticky carries it,
whether it stays clear of obstacles, whether it lies on the floor, whether on an obstacle, how clear it stays, how near a target it ends."""


class Told(NamedTuple):
    """What else a network is told of a placement."""

    stands: bool = False
    """By how much all it weighs on would stay in balance, and the same sharp around 0, without and with glue: 4 features."""
    ways: bool = False
    """Whether it reaches a target, whether a way leads on to one, and 1 / (1 + the blocks that takes): 3 features."""
    covers: bool = False
    """How much of what is bare of the obstacles it would cover, in units of 2 m and as a share of all: 2 features."""
    finishes: bool = False
    """Whether it fills a target of a silhouette; whether the rest can then be filled with no more glue than from anywhere, without and
    with glue here; and how much glue that takes, from 0 for none to 1 for too much, without and with: 5 features."""
    remains: bool = False
    """How many blocks fewer it then takes to each of up to three targets, all together, and how many it still takes to each, fewest
    first, in units of 10: 4 features."""

    @staticmethod
    def of(net: NetConfig) -> Told:
        """What the network of a config is told."""
        return Told(net.stands, net.ways, net.covers, net.finishes, net.remains)

    @property
    def features(self) -> int:
        """Of a placement, altogether."""
        return PLACE_FEATURES + 4 * self.stands + 3 * self.ways + 2 * self.covers + 5 * self.finishes + (1 + APART) * self.remains


NO_MORE = Told()
_CLEAR = 0.3
"""Beyond this, how far an obstacle is says nothing more."""
_TARGET, _OBSTACLE = int(Role.TARGET), int(Role.OBSTACLE)
_X = float(PLACE_X[1])
_HALF = BLOCK_HEIGHT / 2
_WIDTHS = np.array(KIND_WIDTHS, dtype=np.float32)
_height_on = compiled(height_on)


def forecast(layout: Layout, scenes: Arrays, scene: Ints, kind: Ints, ref: Ints, told: Told = NO_MORE) -> Array:
    """(m, offsets, features): what comes of placing a kind (m,) by an object (m,) of a scene (m,), at each offset."""
    grid = offset(np.arange(layout.offsets), layout.offsets, 2.0, 0.0).astype(np.float32)  # in units of the mean width of both
    found = np.empty((len(scene), len(grid), told.features), np.float32)
    given = (scenes.pose, scenes.size, scenes.role, scenes.sticky, scenes.glue, np.diff(scenes.first), scene, kind, ref)
    rows = scenes.pose.shape[1]
    _forecast(*given, _WIDTHS, grid, told, make_loads(rows), make_ways(), make_stretches(rows), make_finish(rows), found)
    return found


@compiled
def _forecast(
    pose: Array,
    size: Array,
    role: Ints,
    sticky: Array,
    glue: Array,
    count: Ints,
    scenes: Ints,
    kinds: Ints,
    refs: Ints,
    widths: Array,
    grid: Array,
    told: Told,
    loads: Loads,
    ways: Array,
    bare: Floats,
    finish: Finish,
    out: Array,
) -> None:
    """Fills `out` (m, offsets, features)."""
    sides = np.empty((4, pose.shape[1]))
    west, east, low, top = sides
    new = len(loads.group) - 1
    last, contacts, stretches, length, unfilled, least = -1, 0, 0, 0.0, 0, 0.0
    tables, remaining, needed = 0, 0.0, np.zeros(APART)
    for m in range(len(scenes)):
        b, n = scenes[m], count[scenes[m]]
        if b != last:
            last = b
            for i in range(n):
                c, s = abs(np.cos(pose[b, i, 2])), abs(np.sin(pose[b, i, 2]))
                across, up = (size[b, i, 0] * c + size[b, i, 1] * s) / 2, (size[b, i, 0] * s + size[b, i, 1] * c) / 2
                west[i], east[i] = pose[b, i, 0] - across, pose[b, i, 0] + across
                low[i], top[i] = pose[b, i, 1] - up, pose[b, i, 1] + up
            if told.finishes:
                unfilled, least = find_finish(finish, loads, n, pose[b], size[b], role[b], sticky[b], glue[b], sides)
            if told.stands:
                touches = find_touches(loads, n, role[b], sides)
                contacts = weigh(loads, touches, n, pose[b, :, 0], size[b], role[b], sticky[b], glue[b], sides)
            if told.ways or told.remains:
                tables = find_ways(ways, told.remains, n, pose[b], size[b], role[b], sides)
            if told.remains:
                remaining = needed_by_all(needed, ways, tables, n, pose[b], size[b], role[b])
            if told.covers:
                stretches, length = find_bare(bare, n, pose[b], size[b], role[b], sides)
        r, width = refs[m], widths[kinds[m]]
        is_target = 1 if role[b, r] == _TARGET else 0
        bottom = _height_on(is_target, pose[b, r, 1], size[b, r, 1]) - _HALF
        for o in range(len(grid)):
            x = min(max(pose[b, r, 0] + (size[b, r, 0] + width) / 2 * grid[o], -_X), _X)
            begin, end = x - width / 2, x + width / 2
            ground = 0.0
            for i in range(n):
                if role[b, i] != _TARGET and west[i] < end and begin < east[i] and top[i] <= bottom + LEVEL / 4:
                    ground = max(ground, top[i])
            left, right, held, stone, clear, near = np.inf, -np.inf, 0.0, 0.0, _CLEAR, 0.0
            rest, laid = ground + _HALF, contacts
            loads.rests[new, 0], loads.rests[new, 1] = np.inf, -np.inf
            for i in range(n):
                if role[b, i] == _TARGET:
                    near = max(near, np.exp(-4 * (abs(x - pose[b, i, 0]) + abs(rest - pose[b, i, 1]))))
                    continue
                gap = max(west[i] - end, begin - east[i])
                if gap < 0 and top[i] <= bottom + LEVEL / 4 and top[i] >= ground - LEVEL:
                    left, right = min(left, max(west[i], begin)), max(right, min(east[i], end))
                    held = max(held, sticky[b, i])
                    if told.stands:
                        laid = lay(loads, laid, new, loads.group[i], max(west[i], begin), min(east[i], end))
                    if role[b, i] == _OBSTACLE:
                        stone = 1.0
                if role[b, i] == _OBSTACLE and top[i] > ground - SAFE and low[i] < bottom + BLOCK_HEIGHT + SAFE:
                    clear = min(clear, max(gap, 0.0))
            balance = min(max(min(x - left, right - x), -1.0), 1.0)
            place = out[m, o]
            place[0], place[1], place[2] = x / 7, rest / SCALE, min((bottom - ground) / 2, 2.0)
            place[3], place[4] = balance, np.tanh(8 * balance)
            place[5], place[6], place[7] = held, 1.0 if clear >= SAFE else 0.0, 1.0 if ground <= 0 else 0.0
            place[8], place[9], place[10] = stone, clear / _CLEAR, near
            at = PLACE_FEATURES
            if told.stands:
                loose, glued = margins(loads, contacts, laid, width * BLOCK_HEIGHT, x) if laid > contacts else (FIRM, FIRM)
                loose = glued if held else loose
                place[at], place[at + 1], place[at + 2], place[at + 3] = loose, np.tanh(8 * loose), glued, np.tanh(8 * glued)
                at += 4
            if told.ways:
                nearest = NO_WAY
                for table in range(tables):
                    nearest = min(nearest, blocks_needed(ways[table], kinds[m], x, rest))
                place[at], place[at + 1], place[at + 2] = nearest == 0, nearest < NO_WAY, 1 / (1 + nearest)
                at += 3
            if told.covers:
                gain = newly_covered(bare, stretches, begin, end, rest)
                place[at], place[at + 1] = gain / 2, gain / length if length > 0 else 0.0
                at += 2
            if told.finishes:
                t = filled_by(finish, unfilled, pose[b], size[b], x, rest, width)
                loose, glued = (finish.loose[t], finish.glued[t]) if t >= 0 else (HOPELESS, HOPELESS)
                place[at], place[at + 1], place[at + 2] = t >= 0, t >= 0 and loose == least, t >= 0 and glued == least
                place[at + 3], place[at + 4] = loose / HOPELESS, glued / HOPELESS
                at += 5
            if told.remains:
                place[at], place[at + 1 : at + 1 + APART] = remaining, 0.0
                for table in range(tables):  # sorted as they come: there are three at most
                    then, k = min(needed[table], blocks_needed(ways[table], kinds[m], x, rest)), at + 1 + APART - tables + table
                    place[at] -= then
                    while k > at + 1 + APART - tables and place[k - 1] > then / 10:
                        place[k] = place[k - 1]
                        k -= 1
                    place[k] = then / 10
