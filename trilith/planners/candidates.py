"""The candidate placements in a scene: every legal discrete relative action, with a forecast of where the placed block comes to rest.

The forecast is plain geometry: the block falls straight down until it meets something, and nothing else moves. Scripts choose by the
forecast alone. Planners use the forecast to decide which placements are worth simulating. The file named after a task orders and prunes
these placements for the planner of this task.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trilith.world.actions import DiscreteRelative, first_of_width, rest_height
from trilith.world.geometry.drop import OBSTACLE_GAP, drops
from trilith.world.geometry.rectangles import boxes
from trilith.world.geometry.rigid_groups import bond_matrix
from trilith.world.geometry.statics import is_stable
from trilith.world.scene import BLOCK_HEIGHT, FLOOR, PLACE_X, Bools, Floats, Ints, Placement, Role, Scene
from trilith.world.tasks.task import SPACING

CODEC = DiscreteRelative()
"""The action space of all scripts and planners: the paper's discrete relative actions with 15 offsets."""
GRID = CODEC.grid(2.0, 0.0)
"""(15,): the 15 offsets, in units of the mean width of the placed block and the reference object."""


@dataclass(frozen=True, eq=False)
class Options:
    """K candidate placements without glue, called options. Entry k of every array describes option k. All lengths are in metres. Of several
    available blocks of equal width only the first is used, because they are interchangeable."""

    scene: Scene
    edge: Ints
    """(K, 3): scene row of the available block, scene row of the reference object, index of the offset."""
    x: Floats
    """(K,): x of the block's centre."""
    width: Floats
    """(K,): width of the block."""
    rest: Floats
    """(K,): y of the block's centre when it has come to rest."""
    drop: Floats
    """(K,): height of the fall."""
    left: Floats
    """(K,): x of the leftmost point at which the block is supported."""
    right: Floats
    """(K,): x of the rightmost point at which the block is supported."""
    safe: Bools
    """(K,): whether the falling block keeps a distance of at least `OBSTACLE_GAP` from every obstacle."""
    held: Bools
    """(K,): whether the block rests on something sticky, so that it cannot tip over."""

    def __len__(self) -> int:
        return len(self.edge)

    @property
    def layer(self) -> Ints:
        """(K,): the layer in which each block comes to rest; 0 is the layer on the floor."""
        return np.rint((self.rest - BLOCK_HEIGHT / 2) / SPACING).astype(np.int64)

    @property
    def balance(self) -> Floats:
        """(K,): the distance in metres by which the middle of each block lies inside its range of support. If the distance is negative, the
        middle lies outside and the block tips over."""
        return np.minimum(self.x - self.left, self.right - self.x)

    def placement(self, k: int, sticky: bool = False) -> Placement:
        """The placement of option k."""
        return CODEC.decode(self.scene, (*self.edge[k].tolist(), int(sticky)))


def options(scene: Scene) -> Options:
    """Finds all options of a scene, ordered by available block, reference object and offset. K is 0 if no placement is legal."""
    edge = np.argwhere(CODEC.mask(scene) & first_of_width(scene)[:, None, None])
    slot, ref, offset = edge.T
    width = scene.size[slot, 0]
    x = np.clip(scene.pose[ref, 0] + (scene.size[ref, 0] + width) / 2 * GRID[offset], *PLACE_X)
    bottom = rest_height(scene, ref) - BLOCK_HEIGHT / 2
    solid = scene.solid
    around, obstacle = boxes(scene.pose[solid], scene.size[solid]), scene.role[solid] == Role.OBSTACLE
    ground, left, right, held, _, clearance = drops(
        x - width / 2, x + width / 2, bottom, BLOCK_HEIGHT, around, scene.sticky[solid], obstacle, OBSTACLE_GAP
    )
    rest, safe = ground + BLOCK_HEIGHT / 2, clearance >= OBSTACLE_GAP
    return Options(scene, edge, x, width, rest, bottom - ground, left, right, safe, held > 0)


def stands(scene: Scene, margin: float = 0.0) -> bool:
    """Whether every block stays in place according to statics. `margin` is a safety margin in metres; a negative margin is a tolerance. All
    blocks must be upright."""
    rows = np.concatenate([[FLOOR], scene.rows(Role.BLOCK)])
    return is_stable(
        scene.pose[rows], scene.size[rows], scene.sticky[rows], bond_matrix(scene.glue, len(scene))[np.ix_(rows, rows)], margin
    )


def rounded_key(scene: Scene, cells: int) -> bytes:
    """A key of a scene. Scenes have equal keys if they have the same blocks at positions that are equal after rounding to 1 / `cells`
    metres. The order in which the blocks were placed does not matter."""
    blocks = scene.rows(Role.BLOCK)
    rows = np.rint(cells * np.column_stack([scene.pose[blocks, :2], scene.size[blocks, 0], scene.sticky[blocks]])).astype(np.int64)
    return rows[np.lexsort(rows.T)].tobytes()
