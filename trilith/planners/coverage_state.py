"""The state of a scene for both covering tasks: uncovered ("bare") parts of obstacles, the length that each option would cover, and
missing supports.

Lengths are counted in cells of 0.05 m. `world.geometry.coverage` gives the exact length, but of one scene at a time. Planning needs
the added length of every option and of every block of a planned sequence. With cells, an added length is the difference of two
running sums.
"""

from __future__ import annotations

import numpy as np

from trilith.planners.candidates import Options, options
from trilith.world.geometry.rectangles import boxes
from trilith.world.scene import BLOCK_HEIGHT, Bools, Floats, Placement, Role, Scene, place
from trilith.world.tasks.task import SCENE_WIDTH, SPACING, layer_y

CELL_X = np.linspace(-SCENE_WIDTH / 2, SCENE_WIDTH / 2, 281)
"""(281,): the centres of the cells."""
CELL_WIDTH = float(CELL_X[1] - CELL_X[0])
SUPPORT_REACH = 0.45
"""Metres: a support in an obstacle's own layer must begin within this distance of the obstacle's end."""
SUPPORT_BAND = (0.3, 0.5)
"""Metres: supports in the layers below must cross this range of distances from the obstacle's end, about under the middle of the
support above."""


class CoverageState:
    """Obstacles, blocks and options of a scene, by layers and cells."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.options: Options = options(scene)
        blocks, obstacles = scene.rows(Role.BLOCK), scene.rows(Role.OBSTACLE)
        layer = np.rint((scene.pose[obstacles, 1] - layer_y(0)) / SPACING).astype(np.int64)
        self.left, self.right, _, top = boxes(scene.pose[blocks], scene.size[blocks])
        self.height = np.rint(top / SPACING).astype(np.int64)
        """(B,): number of layers up to the top of each block."""
        self.layers: list[int] = sorted(set(layer.tolist()))
        """Layers that have obstacles."""
        begin, end, _, _ = boxes(scene.pose[obstacles], scene.size[obstacles])
        self.taken: Bools = np.array(
            [((begin[layer == n, None] < CELL_X) & (end[layer == n, None] > CELL_X)).any(axis=0) for n in self.layers]
        )
        """(layers, cells): which cells contain an obstacle."""
        over = [scene.pose[blocks, 1] >= layer_y(n) - BLOCK_HEIGHT / 4 for n in self.layers]
        hidden = [((self.left[o, None] <= CELL_X) & (self.right[o, None] >= CELL_X)).any(axis=0) for o in over]
        self.bare: Bools = self.taken & ~np.array(hidden, dtype=bool).reshape(self.taken.shape)
        """(layers, cells): which cells contain an obstacle that no block covers."""
        o = self.options
        self.first, self.last = (np.searchsorted(CELL_X, o.x + side * o.width / 2) for side in (-1, 1))
        """(K,) each: the range of cells over which each option lies, without the last."""
        self.over: Bools = o.layer[:, None] > np.array(self.layers)
        """(K, layers): whether each option is above a layer of obstacles."""
        self.gain = self.covers(self.bare)
        """(K,): additional metres of obstacle that each option would cover."""

    def covers(self, bare: Bools) -> Floats:
        """(K,): metres of the bare cells that each option would cover."""
        upto = running(bare)
        return np.where(self.over, (upto[:, self.last] - upto[:, self.first]).T, 0.0).sum(axis=1)

    def supports(self) -> Floats:
        """(K,): the number of missing supports that each option would provide.

        Each end of every bare stretch needs a column of blocks, from the floor up to the obstacle's own layer.
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
        """Option k as a placement, and the scene with its block at rest."""
        placement = self.options.placement(k, sticky)
        return placement, place(self.scene, placement._replace(x=float(self.options.x[k]), y=float(self.options.rest[k])), keep)


def running(bare: Bools) -> Floats:
    """(layers, cells + 1): running sum of the bare length before each cell, in metres."""
    return np.concatenate([np.zeros((len(bare), 1)), np.cumsum(bare, axis=1)], axis=1) * CELL_WIDTH


def stretches(bare: Bools) -> list[tuple[float, float]]:
    """x of the beginning and the end of each run of bare cells in a layer."""
    edges = np.flatnonzero(np.diff(bare.astype(np.int8), prepend=0, append=0))
    return [(float(CELL_X[a]), float(CELL_X[b - 1])) for a, b in zip(edges[::2], edges[1::2], strict=True)]
