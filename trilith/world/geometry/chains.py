"""Chains: the cheapest path of glued blocks past obstacles to a target. A chain has one block per layer, each on top of the previous one.

Glue is rigid, so a chain from the floor stands however far it leans. But a chain that leans or reaches far to the side costs more, because
straight chains leave more room for the next chains.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trilith.utils.compiled import compiled
from trilith.world.actions import CLEARANCE
from trilith.world.geometry.drop import LEVEL, OBSTACLE_GAP
from trilith.world.geometry.rectangles import Bools, Floats, Ints
from trilith.world.scene import BLOCK_HEIGHT, PLACE_X

CHAIN_CELL = 0.1
"""Width in metres of a cell of x. Among chains whose last blocks have the same width and lie in the same cell, only the cheapest is
extended."""
SHARED_WIDTH = 0.15
"""Minimum horizontal overlap, in metres, of a block of a chain and the block below it."""
TARGET_INSET = 0.03
"""Metres: the centre of a target must lie at least this far from the left and right ends of the block that reaches it."""
TIGHT_GAP = 0.12
"""Metres: a block of a chain costs more if its horizontal distance to an obstacle is smaller than this."""

# Costs are counted in blocks: each block of a chain costs 1, plus the following.
WIDTH_COST = 0.4
"""Cost of a block of a chain per metre of its width, because wide blocks are in the way of later chains."""
DROP_COST = 2.0
"""Cost of the first block of a chain per metre of its fall."""
LEAN_COST = 5.0
"""A block of a chain whose centre lies d metres beyond the end of the block or support below costs LEAN_COST * d * its width."""
SHIFT_COST = 2.0
"""Cost of a block of a chain per metre of horizontal distance to the centre of the block or support below."""
ARM_COST = 0.5
"""A later block of a chain whose centre lies d metres to the side of `Links.base` costs ARM_COST * d * its width."""
TIGHT_COST = 2.0
"""Cost of a block of a chain if an obstacle is closer to it than TIGHT_GAP."""
COST_NOISE = 4.0
"""Maximum of the random cost that can be added for each block of a chain, so that other chains than the cheapest are found."""


class Links(NamedTuple):
    """M chains. Each array is (M,); `x` and `width` are those of the last, topmost blocks. These blocks are in one layer, except in the
    result of `start_links`."""

    x: Floats
    width: Floats
    cost: Floats
    """Cost of the whole chain, in blocks: each block costs 1, plus the costs that the constants of this module name."""
    base: Floats
    """x of the foot of the chain: the middle of the support of its first block."""
    root: Ints
    """The number by which the caller of `start_links` identified the first block of each chain."""
    parent: Ints
    """For each chain, the index of the same chain without its last block, among the chains of the layer below; -1 for a chain of one
    block."""
    offset: Ints
    """For each chain, the index in `Surroundings.grid` of the offset of its last block on the block below; -1 for a chain of one block."""

    def take(self, rows: Ints) -> Links:
        """The chains with the indices `rows`."""
        return Links._make(column[rows] for column in self)


class Chain(NamedTuple):
    """A chain of blocks that reaches a target."""

    root: int
    """The number by which the caller of `start_links` identified the first block."""
    rest: list[tuple[float, int]]
    """The blocks after the first, from the lowest up, each as (width in metres, index in `Surroundings.grid` of its offset on the block
    below)."""


class Surroundings(NamedTuple):
    """The obstacles and placed blocks that a chain must avoid, and the widths and offsets that its blocks can have."""

    obstacles: Floats
    """(O, 4): x, y, width and height of each of O obstacles, in metres."""
    blocks: Floats
    """(4, B): x of the left and right sides, y of the bottoms and tops of B placed blocks, in metres."""
    widths: Floats
    """(W,): the W different widths of available blocks, ascending, in metres."""
    grid: Floats
    """(G,): the G horizontal offsets at which a block can be placed on another, ascending, in units of the mean width of the two blocks."""


def start_links(root: Ints, x: Floats, width: Floats, y: Floats, drop: Floats, left: Floats, right: Floats, obstacles: Floats) -> Links:
    """Makes M chains of one block each.

    Args:
        root: (M,), a number for each block, by which the caller can identify it in the result.
        x, y: (M,), the centres of the blocks at rest, in metres.
        width, drop: (M,), the widths of the blocks and the heights of their falls, in metres.
        left, right: (M,), x of the left and right ends of the supports of the blocks.
        obstacles: (O, 4), x, y, width and height of each of O obstacles.
    """
    middle = (left + right) / 2
    lean = np.maximum(0, -np.minimum(x - left, right - x))
    cost = 1 + WIDTH_COST * width + DROP_COST * drop + LEAN_COST * width * lean + SHIFT_COST * np.abs(x - middle)
    cost += TIGHT_COST * _tight(x, y, width, obstacles)
    none = np.full(len(x), -1)
    return Links(x, width, cost, middle, root, none, none)


def cheapest_chain(
    starts: Links,
    layer: Ints,
    heights: Floats,
    target_x: Floats,
    target_layer: Ints,
    around: Surroundings,
    noise: np.random.Generator | None,
) -> Chain | None:
    """The cheapest chain that begins with one of the M blocks `starts` and reaches one of T targets; None if there is no such chain.

    Args:
        starts: chains of one block each, made by `start_links`.
        layer: (M,), the layer in which each of these blocks lies, from 0.
        heights: y of the centre of each layer, from layer 0 to the highest layer with a target, in metres.
        target_x: (T,), x of the centre of each target.
        target_layer: (T,), the layer of each target.
        around: the objects that the chain must avoid, and the widths and offsets that its blocks can have.
        noise: if given, a random cost of up to COST_NOISE is drawn from it for every block.
    """
    layers: list[Links] = []
    best = (np.inf, 0, 0)
    for number in range(int(target_layer.max(initial=-1)) + 1):
        links = starts.take(np.flatnonzero(layer == number))
        if layers:
            links = Links._make(map(np.concatenate, zip(links, _extended(layers[-1], heights[number], around), strict=True)))
        if noise is not None:
            links = links._replace(cost=links.cost + noise.uniform(0, COST_NOISE, len(links.cost)))
        cell = np.rint(links.x / CHAIN_CELL) * len(around.widths) + np.searchsorted(around.widths, links.width)
        order = np.lexsort((links.cost, cell))
        links = links.take(order[np.diff(cell[order], prepend=np.inf) != 0])
        layers.append(links)
        for x in target_x[target_layer == number]:
            reaching = np.where(np.abs(links.x - x) < links.width / 2 - TARGET_INSET, links.cost, np.inf)
            if reaching.min(initial=np.inf) < best[0]:
                best = (float(reaching.min()), number, int(reaching.argmin()))
    cost, number, row = best
    if cost == np.inf:
        return None
    rest: list[tuple[float, int]] = []
    while (links := layers[number]).parent[row] >= 0:
        rest.append((float(links.width[row]), int(links.offset[row])))
        number, row = number - 1, int(links.parent[row])
    return Chain(int(links.root[row]), rest[::-1])


def _extended(below: Links, y: float, around: Surroundings) -> Links:
    """All chains that add one block to a chain of `below`, the chains of the layer below. The centre of the new block is at height `y`."""
    found = _extend(below.x, below.width, below.cost, below.base, y, *around)
    parent, offset = found[4:].astype(np.int64)
    return Links(found[0], found[1], found[2], found[3], below.root[parent], parent, offset)


@compiled
def _extend(
    below_x: Floats, below_width: Floats, below_cost: Floats, base: Floats, y: float,
    obstacles: Floats, blocks: Floats, widths: Floats, grid: Floats,
) -> Floats:  # fmt: skip
    """(6, K): x, width, cost, base, parent and offset (as in `Links`) of all K chains that add one block to a chain of the layer below.

    `below_x`, `below_width`, `below_cost` and `base` are fields of the `Links` of the layer below. `y` is the height of the new blocks'
    centres. The other arguments are the fields of `Surroundings`.
    """
    found = np.empty((6, len(widths) * len(below_x) * len(grid)))
    count = 0
    for width in widths:
        for p in range(len(below_x)):
            for i, offset in enumerate(grid):
                x = below_x[p] + (below_width[p] + width) / 2 * offset
                sideways = abs(x - below_x[p])
                if (below_width[p] + width) / 2 - sideways < SHARED_WIDTH or abs(x) > PLACE_X[1]:
                    continue
                if _beside(x, y, width, obstacles, OBSTACLE_GAP) or _blocked(x, y, width, blocks):
                    continue
                cost = (
                    below_cost[p]
                    + 1
                    + WIDTH_COST * width
                    + SHIFT_COST * sideways
                    + LEAN_COST * width * max(0.0, sideways - below_width[p] / 2)
                    + ARM_COST * width * abs(x - base[p])
                    + TIGHT_COST * _beside(x, y, width, obstacles, TIGHT_GAP)
                )
                into = found[:, count]
                into[0], into[1], into[2], into[3], into[4], into[5] = x, width, cost, base[p], float(p), float(i)
                count += 1
    return found[:, :count]


@compiled
def _beside(x: float, y: float, width: float, obstacles: Floats, gap: float) -> bool:
    """Whether an obstacle is horizontally less than `gap`, and vertically less than OBSTACLE_GAP, away from a block that rests with its
    centre at (x, y). `obstacles` (O, 4) has x, y, width and height.

    The block is placed CLEARANCE above its resting position. So the space that it needs is higher than the block by this length.
    """
    for ox, oy, w, h in obstacles:
        if abs(x - ox) < (width + w) / 2 + gap and abs(y + CLEARANCE / 2 - oy) < (BLOCK_HEIGHT + CLEARANCE + h) / 2 + OBSTACLE_GAP:
            return True
    return False


@compiled
def _tight(x: Floats, y: Floats, width: Floats, obstacles: Floats) -> Bools:
    """Mask (K,): which of K blocks have an obstacle closer than TIGHT_GAP beside them. `x`, `y` and `width` (K,) describe the blocks at
    rest; `obstacles` (O, 4) has x, y, width and height."""
    return np.array([_beside(x[k], y[k], width[k], obstacles, TIGHT_GAP) for k in range(len(x))])


@compiled
def _blocked(x: float, y: float, width: float, blocks: Floats) -> bool:
    """Whether a block with its centre at (x, y) overlaps one of `blocks` (4, B), given by left, right, bottom and top. Vertical overlaps of
    less than LEVEL are ignored."""
    for left, right, low, top in blocks.T:
        if x - width / 2 < right and x + width / 2 > left and top > y - BLOCK_HEIGHT / 2 + LEVEL and low < y + BLOCK_HEIGHT / 2 - LEVEL:
            return True
    return False
