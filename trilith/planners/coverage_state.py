"""What both covering tasks share: what is still bare, what each option would cover, and which supports are missing."""

from __future__ import annotations

import numpy as np

from trilith.planners.candidates import Options, options
from trilith.world.geometry.rectangles import boxes
from trilith.world.scene import BLOCK_HEIGHT, Bools, Floats, Placement, Role, Scene, place
from trilith.world.tasks.task import SCENE_WIDTH, SPACING, layer_y

XS = np.linspace(-SCENE_WIDTH / 2, SCENE_WIDTH / 2, 281)
"""(281,): the middle of the cells, 0.05 m wide, in which lengths to be covered are counted."""
CELL = float(XS[1] - XS[0])
NEAR = 0.45
"""A support in an obstacle's own layer begins within this of its end."""
BESIDE = 0.4
"""The supports below that one are wanted this far from the obstacle's end, which is about under its middle."""


class Shelter:
    """A scene of obstacles as the builders see it."""

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
        self.taken: Bools = np.array([((begin[layer == n, None] < XS) & (end[layer == n, None] > XS)).any(axis=0) for n in self.layers])
        """(layers, cells): where obstacles are."""
        over = [scene.pose[blocks, 1] >= layer_y(n) - BLOCK_HEIGHT / 4 for n in self.layers]
        hidden = [((self.left[o, None] <= XS) & (self.right[o, None] >= XS)).any(axis=0) for o in over]
        self.bare: Bools = self.taken & ~np.array(hidden, dtype=bool).reshape(self.taken.shape)
        """(layers, cells): obstacles that no block covers."""
        o = self.options
        self.first, self.last = (np.searchsorted(XS, o.x + side * o.width / 2) for side in (-1, 1))
        """(K,) each: the cells that each option lies over, the last not included."""
        self.over: Bools = o.layer[:, None] > np.array(self.layers)
        """(K, layers): whether each option is above a layer of obstacles."""
        self.gain = self.covers(self.bare)
        """(K,): length that each option would cover newly."""

    def covers(self, bare: Bools) -> Floats:
        """(K,): length of the bare cells that each option would cover."""
        upto = running(bare)
        return np.where(self.over, (upto[:, self.last] - upto[:, self.first]).T, 0.0).sum(axis=1)

    def supports(self) -> Floats:
        """(K,): how many supports that are missing each option would provide.

        Beside each end of every bare stretch a column of blocks is wanted, up to the obstacle's own layer.
        """
        o = self.options
        left, right, layer = o.x - o.width / 2, o.x + o.width / 2, o.layer
        count = np.zeros(len(o))
        for n, bare in zip(self.layers, self.bare, strict=True):
            for begin, end in stretches(bare):
                for side, x in ((-1, begin), (1, end)):
                    for m in range(n + 1):
                        low, high = sorted((x, x + side * NEAR) if m == n else (x + side * (BESIDE - 0.1), x + side * (BESIDE + 0.1)))
                        if not ((self.height == m + 1) & (self.left < high) & (self.right > low)).any():
                            count += (layer == m) & (left < high) & (right > low)
        return count

    def forecast(self, k: int, sticky: bool, keep: bool) -> tuple[Placement, Scene]:
        """Option k as a placement, and the scene with its block where it would come to rest."""
        o = self.options
        placement = o.placement(k, sticky)
        return placement, place(self.scene, placement._replace(x=float(o.x[k]), y=float(o.rest[k])), keep)


def running(bare: Bools) -> Floats:
    """(layers, cells + 1): length of the bare cells before each cell."""
    return np.concatenate([np.zeros((len(bare), 1)), np.cumsum(bare, axis=1)], axis=1) * CELL


def stretches(bare: Bools) -> list[tuple[float, float]]:
    """Begin and end of each run of bare cells of a layer."""
    edges = np.flatnonzero(np.diff(bare.astype(np.int8), prepend=0, append=0))
    return [(float(XS[a]), float(XS[b - 1])) for a, b in zip(edges[::2], edges[1::2], strict=True)]
