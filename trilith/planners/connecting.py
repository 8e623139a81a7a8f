"""Connecting: paths of glued blocks from the floor, or from what stands already, past the obstacles to the targets.

Glue is free here, so every block is sticky and a path is a chain of blocks, each placed on the one before: one block a
layer. The step limits leave room for three paths from the floor, so a path is chosen for how well it will stand rather
than for its length. Glue is rigid: what holds to the floor no longer moves, however far it leans. That leaning, long arms
and falling cost so much is from when glue bent and sank in. Obstacles are only 0.175 m away from a block in the next layer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trilith.planners.candidates import CODEC, GRID, SAFE, Options, options
from trilith.planners.registry import plans, scripts
from trilith.world.actions import CLEARANCE
from trilith.world.episode import State, step
from trilith.world.geometry.drop import LEVEL
from trilith.world.geometry.rectangles import boxes
from trilith.world.scene import BLOCK_HEIGHT, PLACE_X, SLOT_WIDTHS, Bools, Floats, Ints, Placement, Role, Scene
from trilith.world.tasks.connecting import reached
from trilith.world.tasks.task import SPACING, layer_y

WIDTHS = tuple(sorted(set(SLOT_WIDTHS)))
CELL = 0.1
"""Of all chains whose last blocks have the same width and lie in the same cell of this size, the cheapest is followed."""
GRIP = 0.15
"""A block and what it stands on share at least this much of their width."""
REACH = 0.03
"""The centre of a target lies at least this far inside the block that reaches it."""

# What makes a chain expensive, in blocks.
WIDE = 0.4
"""A metre of block width: wide blocks are heavy and in the way of later paths."""
DROP = 2.0
"""A metre of free fall."""
LEAN = 5.0
"""A metre by which the middle of a metre of block is beyond the edge of the block below."""
SHIFT = 2.0
"""A metre of sideways step."""
ARM = 0.5
"""A metre between the middle of a metre of block and what the chain stands on."""
TIGHT = 2.0
"""Passing an obstacle closer than CLEAR."""
CLEAR = 0.12

ATTEMPTS = 30
"""How many times the search begins anew."""
MIDWAY = 4
"""How many times from the midst of an episode, where what is left is often too little for all targets and every attempt would be made
in vain. In 60 states that an agent failed from, 4 attempts gained 0.60, 30 gained 0.63 in five times the time."""
MISSES = 6
"""How many chains may fail before it does."""
NOISE = 4.0
"""What a block of a chain may cost more by whim, from the first failure on."""


class Chain(NamedTuple):
    """A path to a target: the option it begins with, and width and offset of each block after it."""

    cost: float
    root: int
    rest: list[tuple[float, int]]


class _Layer(NamedTuple):
    """The last blocks of all chains considered that end in one layer, one row each."""

    x: Floats
    width: Floats
    cost: Floats
    base: Floats
    """Where the chain stands."""
    root: Ints
    """Option that the chain begins with."""
    parent: Ints
    """Row in the layer below, -1 where the chain begins."""
    offset: Ints
    """Offset of the grid at which it is placed on its parent."""


@scripts("connecting")
def script(scene: Scene) -> Placement | None:
    """The first placement of the cheapest chain to any target, None if there is no chain."""
    opts = options(scene)
    chain = cheapest(opts)
    return None if chain is None else opts.placement(chain.root, sticky=True)


@plans("connecting")
def plan(state: State) -> list[Placement]:
    """Builds the cheapest chain to a target in the simulator, then the next; of one that fails, a part is taken back and another drawn."""
    best: list[Placement] = []
    most = state.total
    for attempt in range(MIDWAY if state.steps else ATTEMPTS):
        rng = np.random.default_rng(attempt)
        here, done, misses = state, list[Placement](), 0
        while not here.ended and misses < MISSES:
            opts = options(here.scene)
            chain = cheapest(opts, rng if attempt or misses else None)
            if chain is None:
                break
            placements, states = _build(here, opts, chain)
            kept = len(placements)
            if states[-1].total <= here.total or states[-1].ended == "obstacle_hit":
                misses += 1
                kept = int(rng.integers(kept))
            if kept:
                here, done = states[kept - 1], done + placements[:kept]
            if here.total > most:
                best, most = done, here.total
        if here.ended == "complete":
            break
    return best


def _build(state: State, opts: Options, chain: Chain) -> tuple[list[Placement], list[State]]:
    """The placements of a chain and where each led, to its end or to where the episode ended."""
    placement: Placement | None = opts.placement(chain.root, sticky=True)
    done, states = list[Placement](), list[State]()
    for width, offset in [*chain.rest, (0.0, 0)]:
        assert placement is not None  # an available block on the one just placed
        done.append(placement)
        state = step(state, placement).state
        states.append(state)
        if state.ended or not width:
            break
        placement = CODEC.decode(state.scene, (SLOT_WIDTHS.index(width), len(state.scene) - 1, offset, 1))
    return done, states


def cheapest(opts: Options, rng: np.random.Generator | None = None) -> Chain | None:
    """The cheapest chain to any target not yet reached; with `rng`, each block's cost is drawn up to NOISE more."""
    scene = opts.scene
    targets = scene.rows(Role.TARGET)[~np.asarray(reached(scene), dtype=bool)]
    target_layer = np.rint((scene.pose[targets, 1] - layer_y(0)) / SPACING).astype(np.int64)
    usable = opts.safe & (opts.right - opts.left >= GRIP)
    layers: list[_Layer] = []
    best: tuple[float, int, int] | None = None
    for number in range(int(target_layer.max(initial=-1)) + 1):
        roots = _roots(opts, np.flatnonzero(usable & (opts.layer == number)))
        found = _stack(scene, number, layers[-1], roots) if layers else roots
        if rng is not None:
            found = found._replace(cost=found.cost + rng.uniform(0, NOISE, len(found.cost)))
        cell = np.rint(found.x / CELL) * len(WIDTHS) + np.searchsorted(WIDTHS, found.width)
        order = np.lexsort((found.cost, cell))
        keep = order[np.diff(cell[order], prepend=np.inf) != 0]
        layer = _Layer(*(column[keep] for column in found))
        layers.append(layer)
        for target in targets[target_layer == number]:
            cost = np.where(np.abs(layer.x - scene.pose[target, 0]) < layer.width / 2 - REACH, layer.cost, np.inf)
            if len(cost) and cost.min() < (best[0] if best else np.inf):
                best = (float(cost.min()), number, int(cost.argmin()))
    if best is None:
        return None
    total, number, row = best
    rest: list[tuple[float, int]] = []
    while layers[number].parent[row] >= 0:
        rest.append((float(layers[number].width[row]), int(layers[number].offset[row])))
        number, row = number - 1, int(layers[number].parent[row])
    return Chain(total, int(layers[number].root[row]), rest[::-1])


def _roots(opts: Options, k: Ints) -> _Layer:
    """The chains that begin with options k."""
    x, width, middle = opts.x[k], opts.width[k], (opts.left[k] + opts.right[k]) / 2
    cost = 1 + WIDE * width + DROP * opts.drop[k] + LEAN * width * np.maximum(0, -opts.balance[k]) + SHIFT * np.abs(x - middle)
    cost += TIGHT * _near(opts.scene, x, width, opts.rest[k], CLEAR)
    none = np.full(len(k), -1)
    return _Layer(x, width, cost, middle, k, none, none)


def _stack(scene: Scene, number: int, below: _Layer, roots: _Layer) -> _Layer:
    """`roots`, and every block that can be placed on the last block of a chain below."""
    parts = [roots]
    y = np.array([layer_y(number)])
    for width in WIDTHS:
        x = below.x[:, None] + (below.width[:, None] + width) / 2 * GRID
        sideways = np.abs(x - below.x[:, None])
        cost = below.cost[:, None] + 1 + WIDE * width + SHIFT * sideways + LEAN * width * np.maximum(0, sideways - below.width[:, None] / 2)
        cost += ARM * width * np.abs(x - below.base[:, None])
        possible = ((below.width[:, None] + width) / 2 - sideways >= GRIP) & (np.abs(x) <= PLACE_X[1])
        parent, offset = np.nonzero(possible)
        x, cost = x[possible], cost[possible]
        free = ~_near(scene, x, np.full(len(x), width), y, SAFE) & ~_blocked(scene, x, width, float(y[0]))
        x, cost, parent, offset = x[free], cost[free], parent[free], offset[free]
        cost += TIGHT * _near(scene, x, np.full(len(x), width), y, CLEAR)
        parts.append(_Layer(x, np.full(len(x), width), cost, below.base[parent], below.root[parent], parent, offset))
    return _Layer(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _near(scene: Scene, x: Floats, width: Floats, y: Floats, margin: float) -> Bools:
    """Which blocks at (x, y) would have an obstacle within `margin` sideways, or touch one above or below while being placed."""
    rows = scene.rows(Role.OBSTACLE)
    beside = np.abs(x[:, None] - scene.pose[rows, 0]) < (width[:, None] + scene.size[rows, 0]) / 2 + margin
    level = np.abs(y[:, None] + CLEARANCE / 2 - scene.pose[rows, 1]) < (BLOCK_HEIGHT + CLEARANCE + scene.size[rows, 1]) / 2 + SAFE
    return (beside & level).any(axis=1)


def _blocked(scene: Scene, x: Floats, width: float, y: float) -> Bools:
    """Which blocks at (x, y) would overlap one that stands already."""
    blocks = scene.rows(Role.BLOCK)
    left, right, low, top = boxes(scene.pose[blocks], scene.size[blocks])
    level = np.flatnonzero((top > y - BLOCK_HEIGHT / 2 + LEVEL) & (low < y + BLOCK_HEIGHT / 2 - LEVEL))
    beside: Bools = (x[:, None] - width / 2 < right[level]) & (x[:, None] + width / 2 > left[level])
    return np.logical_or.reduce(beside, axis=1)
