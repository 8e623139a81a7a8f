"""Chains: the cheapest path of glued blocks past obstacles to a target. A chain has one block per layer, each on top of the previous one.

Glue is rigid, so a chain from the floor stands however far it leans. But leaning, long arms and falls have a cost, because straight chains
leave more room for the next chains.
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
"""Metres: among chains whose last blocks have the same width and lie in the same cell of this size, only the cheapest is extended."""
SHARED_WIDTH = 0.15
"""Minimum width, in metres, that a block of a chain shares with the block below it."""
TARGET_INSET = 0.03
"""Metres: the centre of a target must lie at least this far inside the block that reaches it."""
TIGHT_GAP = 0.12
"""Metres: a block that is closer to an obstacle than this costs more."""

# Costs are counted in blocks: each block of a chain costs 1, plus the following.
WIDTH_COST = 0.4
"""Per metre of the block's width, because wide blocks are in the way of later chains."""
DROP_COST = 2.0
"""Per metre of free fall."""
LEAN_COST = 5.0
"""Per square metre: the block's width times the distance of its centre beyond the end of the block below."""
SHIFT_COST = 2.0
"""Per metre of horizontal distance to the centre of the block below, or of the support."""
ARM_COST = 0.5
"""Per square metre: the block's width times the horizontal distance of its centre from the foot of the chain (`base`)."""
TIGHT_COST = 2.0
"""For a block with an obstacle closer than TIGHT_GAP."""
COST_NOISE = 4.0
"""Maximum of a random cost per block. With random costs, chains other than the cheapest are found."""


class Links(NamedTuple):
    """M chains whose last blocks are in the same layer. Each row describes one chain by its last block."""

    x: Floats
    width: Floats
    cost: Floats
    """Cost of the whole chain."""
    base: Floats
    """x of the foot of the chain: the middle of the support of its first block."""
    root: Ints
    """Number of the first block, as given to `start_links`."""
    parent: Ints
    """The same chain without its last block, as a row of the layer below; -1 for a chain of one block."""
    offset: Ints
    """Index of the last block's offset on its parent, -1 for the first block."""

    def take(self, rows: Ints) -> Links:
        """The chains in these rows."""
        return Links._make(column[rows] for column in self)


class Chain(NamedTuple):
    """A path to a target."""

    root: int
    """Number of the first block, as given to `start_links`."""
    rest: list[tuple[float, int]]
    """(width, index of the offset) of each block after the first, from below."""


class Surroundings(NamedTuple):
    """The obstacles and blocks that a chain must avoid, and the blocks that it can use."""

    obstacles: Floats
    """(O, 4): x, y, width, height."""
    blocks: Floats
    """(4, B): left, right, bottom and top of the blocks in the scene."""
    widths: Floats
    """(W,): widths of available blocks, ascending."""
    grid: Floats
    """(G,): offsets at which a block can be placed on another, in units of their mean width."""


def start_links(root: Ints, x: Floats, width: Floats, y: Floats, drop: Floats, left: Floats, right: Floats, obstacles: Floats) -> Links:
    """Makes M chains of one block each. `root` (M,) gives their numbers. Each block comes to rest at (x, y) after a fall of `drop` metres;
    its support reaches from x = `left` to `right`. `obstacles` (O, 4) is as in `Surroundings`."""
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
    """The cheapest chain that begins with any of `starts` and reaches any of T targets; None if there is none.

    The block of start m lies in layer `layer[m]`. The centre of layer k is at `heights[k]`. `target_x` (T,) and `target_layer` (T,) say
    where the targets are. With `noise`, a random cost of up to COST_NOISE is added for every block.
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
    """All chains that add one block, with its centre at height y, to a chain of the layer below."""
    found = _extend(below.x, below.width, below.cost, below.base, y, *around)
    parent, offset = found[4:].astype(np.int64)
    return Links(found[0], found[1], found[2], found[3], below.root[parent], parent, offset)


@compiled
def _extend(
    below_x: Floats, below_width: Floats, below_cost: Floats, base: Floats, y: float,
    obstacles: Floats, blocks: Floats, widths: Floats, grid: Floats,
) -> Floats:  # fmt: skip
    """(6, M): x, width, cost, base, parent and offset of every block that fits on a block of the layer below."""
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
    """Whether an obstacle is less than `gap` away from a block at (x, y) horizontally, and less than OBSTACLE_GAP vertically. Vertically,
    the block also occupies the CLEARANCE above it, because it is placed that much higher than it rests."""
    for ox, oy, w, h in obstacles:
        if abs(x - ox) < (width + w) / 2 + gap and abs(y + CLEARANCE / 2 - oy) < (BLOCK_HEIGHT + CLEARANCE + h) / 2 + OBSTACLE_GAP:
            return True
    return False


@compiled
def _tight(x: Floats, y: Floats, width: Floats, obstacles: Floats) -> Bools:
    """(K,): which of K blocks have an obstacle closer than TIGHT_GAP."""
    return np.array([_beside(x[k], y[k], width[k], obstacles, TIGHT_GAP) for k in range(len(x))])


@compiled
def _blocked(x: float, y: float, width: float, blocks: Floats) -> bool:
    """Whether a block at (x, y) overlaps a block of the scene."""
    for left, right, low, top in blocks.T:
        if x - width / 2 < right and x + width / 2 > left and top > y - BLOCK_HEIGHT / 2 + LEVEL and low < y + BLOCK_HEIGHT / 2 - LEVEL:
            return True
    return False
