"""The candidate placements in a scene: every legal discrete relative action, with a forecast of where the placed block comes to rest.

The forecast is plain geometry: the block falls straight down until it meets something, and nothing else moves. Scripts choose by the
forecast alone. Planners use the forecast to decide which placements they simulate, and in which order; the rules for this are in the file
named after the task.
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
"""(15,): the horizontal offsets at which a block can be placed on another object, ascending. An offset is the distance between the two
centres, negative to the left, divided by the mean width of the two."""


@dataclass(frozen=True, eq=False)
class Options:
    """K placements that are possible in a scene, called options: the legal discrete relative actions, without glue. Entry k of every array
    describes option k. All lengths are in metres. Of several available blocks of equal width only the first is used, because they are
    interchangeable."""

    scene: Scene
    edge: Ints
    """(K, 3): three integers for each of K options: the row of the available block, the row of the object relative to which it is placed,
    and the index of the offset."""
    x: Floats
    """(K,): for each of K options, x of the block's centre in metres."""
    width: Floats
    """(K,): for each of K options, the width of the block in metres."""
    rest: Floats
    """(K,): for each of K options, y of the block's centre when it has come to rest, in metres."""
    drop: Floats
    """(K,): for each of K options, the height in metres from which the block falls."""
    left: Floats
    """(K,): for each of K options, x of the leftmost point at which the resting block is supported."""
    right: Floats
    """(K,): for each of K options, x of the rightmost point at which the resting block is supported."""
    safe: Bools
    """(K,): for each of K options, whether the falling block keeps a distance of at least `OBSTACLE_GAP` from every obstacle."""
    held: Bools
    """(K,): for each of K options, whether the block comes to rest on something sticky, so that it cannot tip over."""

    def __len__(self) -> int:
        return len(self.edge)

    @property
    def layer(self) -> Ints:
        """(K,): for each of K options, the layer in which the block comes to rest; 0 is the layer on the floor."""
        return np.rint((self.rest - BLOCK_HEIGHT / 2) / SPACING).astype(np.int64)

    @property
    def balance(self) -> Floats:
        """(K,): for each of K options, how far in metres the middle of the resting block lies inside its range of support. If the number is
        negative, the middle lies outside and the block tips over."""
        return np.minimum(self.x - self.left, self.right - self.x)

    def placement(self, k: int, sticky: bool = False) -> Placement:
        """The placement of option k (from 0), with or without glue."""
        return CODEC.decode(self.scene, (*self.edge[k].tolist(), int(sticky)))


def options(scene: Scene) -> Options:
    """Finds all legal placements in a scene and forecasts where each block would come to rest. They are ordered by available block, then
    reference object, then offset. The arrays of the result are empty if no placement is legal."""
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
    """Estimates whether every block of a scene stays in place, without simulation. All blocks must be upright. `margin` is the distance in
    metres by which every load must lie inside its supports; a negative margin is a tolerance."""
    rows = np.concatenate([[FLOOR], scene.rows(Role.BLOCK)])
    return is_stable(
        scene.pose[rows], scene.size[rows], scene.sticky[rows], bond_matrix(scene.glue, len(scene))[np.ix_(rows, rows)], margin
    )


def rounded_key(scene: Scene, cells: int) -> bytes:
    """A key of a scene, to recognise similar scenes. Two scenes have equal keys if their placed blocks agree in width, glue and rounded
    position. Positions are rounded to multiples of 1 / `cells` metres. The order of the blocks does not matter."""
    blocks = scene.rows(Role.BLOCK)
    rows = np.rint(cells * np.column_stack([scene.pose[blocks, :2], scene.size[blocks, 0], scene.sticky[blocks]])).astype(np.int64)
    return rows[np.lexsort(rows.T)].tobytes()
