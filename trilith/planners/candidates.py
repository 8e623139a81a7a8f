"""What can be placed in a scene: every legal discrete relative action, and where its block would come to rest if nothing moved.

The forecast is plain geometry: the block falls straight down from where it is put until it meets something. Scripts
choose by it alone, planners use it to decide which placements are worth simulating.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trilith.world.actions import CLEARANCE, DiscreteRelative
from trilith.world.scene import BLOCK_HEIGHT, PLACE_X, Bools, Floats, Ints, Placement, Role, Scene
from trilith.world.tasks.task import SPACING

CODEC = DiscreteRelative()
"""Every builder acts through this: the paper's interface, 15 offsets."""
GRID = CODEC.grid(2.0, 0.0)
"""(15,): the offsets, in units of the mean width of the placed block and its reference."""
SAFE = 0.02
"""A falling block keeps at least this far from an obstacle, four times what counts as touching."""
LEVEL = 0.08
"""Tops that differ by less than this carry a block together: stacks sink into each other by up to 0.01 a layer."""


@dataclass(frozen=True, eq=False)
class Options:
    """K placements, one row each, not sticky; available blocks of one width are interchangeable, so each width appears once."""

    scene: Scene
    slot: Ints
    """(K,): row of the available block."""
    ref: Ints
    """(K,): row of the object it is placed on."""
    offset: Ints
    """(K,): which offset of the grid."""
    x: Floats
    """(K,): where the centre will be."""
    width: Floats
    """(K,)"""
    rest: Floats
    """(K,): y of the centre at rest."""
    drop: Floats
    """(K,): how far it falls."""
    left: Floats
    """(K,): leftmost point at which something carries it."""
    right: Floats
    """(K,): rightmost such point."""
    safe: Bools
    """(K,): whether it stays clear of every obstacle."""
    held: Bools
    """(K,): whether something sticky carries it, so that it cannot tip over."""

    def __len__(self) -> int:
        return len(self.slot)

    @property
    def layer(self) -> Ints:
        """(K,): the layer of blocks it comes to rest in, 0 on the floor."""
        return np.rint((self.rest - BLOCK_HEIGHT / 2) / SPACING).astype(np.int64)

    @property
    def balance(self) -> Floats:
        """(K,): how far inside its supports the middle of the block is; negative: it tips over."""
        return np.minimum(self.x - self.left, self.right - self.x)

    def placement(self, k: int, sticky: bool = False) -> Placement:
        """Option k as a placement, decoded from its discrete relative action."""
        placement = CODEC.decode(self.scene, (int(self.slot[k]), int(self.ref[k]), int(self.offset[k]), int(sticky)))
        assert placement is not None  # options are valid edges
        return placement


def options(scene: Scene) -> Options:
    """Everything that can be placed in a scene."""
    mask = CODEC.mask(scene)
    seen: set[float] = set()
    for row, wide in enumerate(scene.size[: len(mask), 0].tolist()):
        if wide in seen:
            mask[row] = False
        elif scene.role[row] == Role.AVAILABLE:
            seen.add(wide)
    slot, ref, offset = np.nonzero(mask)
    width = scene.size[slot, 0]
    x = np.clip(scene.pose[ref, 0] + (scene.size[ref, 0] + width) / 2 * GRID[offset], *PLACE_X)
    above = np.where(scene.role[ref] == Role.TARGET, 0.0, (scene.size[ref, 1] + BLOCK_HEIGHT) / 2)
    bottom = scene.pose[ref, 1] + above + CLEARANCE - BLOCK_HEIGHT / 2

    solid = np.flatnonzero(scene.solid)
    west, east, low, top = boxes(scene, solid)
    first, last = (x - width / 2)[:, None], (x + width / 2)[:, None]
    between = np.maximum(west - last, first - east)  # horizontal gap, negative where they overlap
    below = (between < 0) & (top <= bottom[:, None] + LEVEL / 4)
    ground = np.where(below, top, 0.0).max(axis=1, initial=0.0)
    carries = below & (top >= ground[:, None] - LEVEL)
    left = np.where(carries, np.maximum(west, first), np.inf).min(axis=1, initial=np.inf)
    right = np.where(carries, np.minimum(east, last), -np.inf).max(axis=1, initial=-np.inf)
    held = (carries & scene.sticky[solid]).any(axis=1)
    passed = (between < SAFE) & (top > ground[:, None] - SAFE) & (low < bottom[:, None] + BLOCK_HEIGHT + SAFE)
    safe = ~(passed & (scene.role[solid] == Role.OBSTACLE)).any(axis=1)
    return Options(scene, slot, ref, offset, x, width, ground + BLOCK_HEIGHT / 2, bottom - ground, left, right, safe, held)


def boxes(scene: Scene, rows: Ints) -> tuple[Floats, Floats, Floats, Floats]:
    """(R,) each: left, right, bottom and top of the upright boxes around some rows."""
    (x, y, angle), (w, h) = scene.pose[rows].T, scene.size[rows].T / 2
    c, s = np.abs(np.cos(angle)), np.abs(np.sin(angle))
    across, up = w * c + h * s, w * s + h * c
    return x - across, x + across, y - up, y + up
