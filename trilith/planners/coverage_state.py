"""Features of a scene for the scripts and planners of both covering tasks: the bare (uncovered) parts of obstacles, the length that each
option (possible placement) would cover, and missing supports.

The width of the scene is divided into cells of 0.05 m, and lengths are numbers of cells. `world.geometry.coverage` computes the exact
covered length, but only for one scene at a time. A planner needs the additional covered length for each of many options. With cells, this
length is the difference of two running sums.
"""

from __future__ import annotations

import numpy as np

from trilith.planners.candidates import Options, options
from trilith.world.geometry.rectangles import boxes
from trilith.world.scene import BLOCK_HEIGHT, Bools, Floats, Placement, Role, Scene, place
from trilith.world.tasks.task import SCENE_WIDTH, SPACING, layer_y

CELL_X = np.linspace(-SCENE_WIDTH / 2, SCENE_WIDTH / 2, 281)
"""(281,): x of the centres of the cells into which the width of the scene is divided, in metres."""
CELL_WIDTH = float(CELL_X[1] - CELL_X[0])
SUPPORT_REACH = 0.45
"""Maximum distance in metres from the end of an uncovered stretch of an obstacle to a support in the obstacle's layer (see
`CoverageState.supports`)."""
SUPPORT_BAND = (0.3, 0.5)
"""Range of distances in metres from the end of an uncovered stretch. A support in a layer below the obstacle's must overlap this range, so
that it lies about under the middle of the support in the obstacle's layer."""


class CoverageState:
    """The obstacles, blocks and options (possible placements) of a scene, described by layers and cells. A cell is a piece of 0.05 m of the
    width of the scene."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.options: Options = options(scene)
        blocks, obstacles = scene.rows(Role.BLOCK), scene.rows(Role.OBSTACLE)
        layer = np.rint((scene.pose[obstacles, 1] - layer_y(0)) / SPACING).astype(np.int64)
        self.left, self.right, _, top = boxes(scene.pose[blocks], scene.size[blocks])
        self.height = np.rint(top / SPACING).astype(np.int64)
        """(B,): the height of the top of each of B placed blocks, in layers."""
        self.layers: list[int] = sorted(set(layer.tolist()))
        """The numbers of the layers that contain obstacles."""
        begin, end, _, _ = boxes(scene.pose[obstacles], scene.size[obstacles])
        self.taken: Bools = np.array(
            [((begin[layer == n, None] < CELL_X) & (end[layer == n, None] > CELL_X)).any(axis=0) for n in self.layers], dtype=bool
        ).reshape(len(self.layers), len(CELL_X))
        """(layers, cells): for each layer with obstacles, whether each cell has an obstacle."""
        over = [scene.pose[blocks, 1] >= layer_y(n) - BLOCK_HEIGHT / 4 for n in self.layers]
        hidden = [((self.left[o, None] <= CELL_X) & (self.right[o, None] >= CELL_X)).any(axis=0) for o in over]
        self.bare: Bools = self.taken & ~np.array(hidden, dtype=bool).reshape(self.taken.shape)
        """(layers, cells): for each layer with obstacles, whether each cell has an obstacle that no block covers."""
        o = self.options
        self.first, self.last = (np.searchsorted(CELL_X, o.x + side * o.width / 2) for side in (-1, 1))
        """Two arrays (K,), with an entry for each of K options: the cells from `first` up to but not including `last` lie in the width of
        its block."""
        self.over: Bools = o.layer[:, None] > np.array(self.layers)
        """(K, layers): for each of K options and each layer with obstacles, whether the block comes to rest above the layer."""
        self.gain = self.covers(self.bare)
        """(K,): for each of K options, how much uncovered length of obstacles its block would cover, in metres."""

    def covers(self, bare: Bools) -> Floats:
        """(K,): for each of K options, the length that its block would cover, in metres. Only the cells that are True in `bare` (layers,
        cells) count."""
        upto = running(bare)
        return np.where(self.over, (upto[:, self.last] - upto[:, self.first]).T, 0.0).sum(axis=1)

    def supports(self) -> Floats:
        """(K,): for each of K options, the number of missing supports that it would provide.

        Supports are blocks that are needed before an obstacle can be covered. Each uncovered stretch of an obstacle needs a column of them
        at both ends, with one support in every layer from the floor up to the layer of the obstacle.
        """
        o = self.options
        left, right, layer = o.x - o.width / 2, o.x + o.width / 2, o.layer
        count = np.zeros(len(o))
        for n, bare in zip(self.layers, self.bare, strict=True):
            for begin, end in stretches(bare):
                for side, x in ((-1, begin), (1, end)):
                    for m in range(n + 1):
                        near, far = (0.0, SUPPORT_REACH) if m == n else SUPPORT_BAND
                        low, high = sorted((x + side * near, x + side * far))
                        if not ((self.height == m + 1) & (self.left < high) & (self.right > low)).any():
                            count += (layer == m) & (left < high) & (right > low)
        return count

    def forecast(self, k: int, sticky: bool, keep: bool) -> tuple[Placement, Scene]:
        """The placement of option k, with or without glue, and the scene as forecast after it: the block is where it should come to rest,
        and nothing else has moved. `keep` says whether the available block stays in the scene."""
        placement = self.options.placement(k, sticky)
        return placement, place(self.scene, placement._replace(x=float(self.options.x[k]), y=float(self.options.rest[k])), keep)


def running(bare: Bools) -> Floats:
    """Running sums (layers, cells + 1), in metres: entry i of a layer is the total length of the cells before cell i that are True in
    `bare` (layers, cells)."""
    return np.concatenate([np.zeros((len(bare), 1)), np.cumsum(bare, axis=1)], axis=1) * CELL_WIDTH


def stretches(bare: Bools) -> list[tuple[float, float]]:
    """Finds the runs of consecutive True cells in `bare` (cells,). Returns (x of the first cell, x of the last cell) for each run, in
    metres, from left to right."""
    edges = np.flatnonzero(np.diff(bare.astype(np.int8), prepend=0, append=0))
    return [(float(CELL_X[a]), float(CELL_X[b - 1])) for a, b in zip(edges[::2], edges[1::2], strict=True)]
