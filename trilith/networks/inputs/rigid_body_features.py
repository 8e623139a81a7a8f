"""Hand-made input features of the learned transition model: which objects form a rigid body, which objects cannot move, and the straight
fall of the new block.

All functions take B scenes of up to R objects as padded arrays. Here the objects of a scene are all rows of the scene except the available
blocks, in row order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trilith.utils.compiled import compiled
from trilith.world.actions import reference_rows
from trilith.world.geometry.drop import drop
from trilith.world.geometry.rectangles import extent
from trilith.world.geometry.rigid_groups import rigid_groups
from trilith.world.scene import Bools, Ints, Role, Scene

Array = NDArray[np.float32]
FALL_COLUMNS = (
    *("height at rest", "drop", "middle inside the supports, left", "middle inside the supports, right"),
    *("carried by a sticky object", "carried by an obstacle", "distance from obstacles"),
)
"""The hand-made features of the straight fall of a block. Lengths are in metres, and "carried by" is 0 or 1. "Middle inside the supports"
is the distance of the block's middle from the leftmost or rightmost supported point, negative outside. The card of each learned model lists
these features."""
FALL = len(FALL_COLUMNS)
_FEATURE_REACH = 1.0
"""Distances to the ends of supports and to obstacles are clipped to this many metres."""
_TARGET, _OBSTACLE = int(Role.TARGET), int(Role.OBSTACLE)


class Placed(NamedTuple):
    """B scenes, each with a new block at the pose where it was placed, before anything moves."""

    objects: Ints
    """(B,): the number of objects in each scene, without the available blocks."""
    new: Ints
    """(B,): the index of the new block among the objects of its scene."""
    pose: Array
    """(B, R, 3): x, y in metres and angle in radians of each object."""
    size: Array
    """(B, R, 2): width and height of each object in metres."""
    role: Ints
    """(B, R): the `Role` of each object. Padding must have the role of a target, which nothing can rest on."""
    sticky: Bools
    """(B, R): for each scene, mask of the sticky blocks."""
    touch: Bools
    """(B, R, R): for each pair of objects, whether the two touch."""
    glue: Bools
    """(B, R, R): for each pair of objects, whether the two are glued."""


def placed_arrays(scenes: Sequence[Scene], rows: Sequence[int], objects: int = 0) -> Placed:
    """Converts B scenes that contain a new block to padded arrays. `rows` (B,) has the row of the new block in each scene. The arrays have
    room for R objects per scene: as many as the largest scene has, but at least `objects`."""
    refs = [reference_rows(scene) for scene in scenes]
    b, r = len(scenes), max(objects, *(len(each) for each in refs))
    placed = Placed(
        np.array([len(each) for each in refs]),
        np.array([np.searchsorted(each, row) for each, row in zip(refs, rows, strict=True)]),
        np.zeros((b, r, 3), np.float32),
        np.ones((b, r, 2), np.float32),
        np.full((b, r), _TARGET, np.int64),
        np.zeros((b, r), bool),
        np.zeros((b, r, r), bool),
        np.zeros((b, r, r), bool),
    )
    for k, (scene, at) in enumerate(zip(scenes, refs, strict=True)):
        n = len(at)
        placed.pose[k, :n], placed.size[k, :n], placed.role[k, :n], placed.sticky[k, :n] = (
            scene.pose[at], scene.size[at], scene.role[at], scene.sticky[at],
        )  # fmt: skip
        for pairs, link in ((scene.contact, placed.touch[k]), (scene.glue, placed.glue[k])):
            if len(pairs):
                i, j = np.searchsorted(at, pairs).T
                link[i, j] = link[j, i] = True
    return placed


def bodies(placed: Placed) -> tuple[Bools, Bools]:
    """Returns two masks for B scenes of up to R objects. The first (B, R, R) marks the pairs of objects in the same rigid body, including
    each object with itself. The second (B, R) marks the objects that cannot move, because they are not blocks or are glued to the floor;
    padding is marked too."""
    group = np.stack([rigid_groups(glue) for glue in placed.glue])
    there = np.arange(placed.role.shape[1]) < placed.objects[:, None]
    same = (group[:, :, None] == group[:, None]) & there[:, :, None] & there[:, None]
    return same, (placed.role != Role.BLOCK) | (same & (placed.role == Role.FLOOR)[:, None]).any(axis=2)


def falls(placed: Placed) -> Array:
    """The features `FALL_COLUMNS` (B, 7) of the new block in each of B scenes, computed as if the block fell straight down and nothing else
    moved."""
    return _falls(placed.pose, placed.size, placed.role, placed.sticky, placed.new)


@compiled
def _falls(pose: Array, size: Array, role: Ints, sticky: Bools, new: Ints) -> Array:
    b, r = role.shape
    found = np.zeros((b, FALL), dtype=np.float32)
    for k in range(b):
        me = new[k]
        x, half = pose[k, me, 0], size[k, me, 1] / 2
        bottom = pose[k, me, 1] - half
        solid = np.flatnonzero((role[k] != _TARGET) & (np.arange(r) != me))  # padding has the role of a target
        boxes = np.empty((4, len(solid)))
        for j, i in enumerate(solid):
            across, up = extent(size[k, i, 0], size[k, i, 1], pose[k, i, 2])
            top = np.float32(pose[k, i, 1] + up)
            boxes[0, j], boxes[1, j], boxes[2, j], boxes[3, j] = (
                pose[k, i, 0] - across,
                pose[k, i, 0] + across,
                2 * pose[k, i, 1] - top,
                top,
            )
        ground, left, right, on_sticky, on_obstacle, clearance = drop(
            x - size[k, me, 0] / 2,
            x + size[k, me, 0] / 2,
            bottom,
            bottom + 2 * half,
            boxes,
            sticky[k][solid],
            role[k][solid] == _OBSTACLE,
            0.0,
        )
        found[k, 0], found[k, 1] = ground + half, bottom - ground
        found[k, 2], found[k, 3] = min(max(x - left, -_FEATURE_REACH), _FEATURE_REACH), min(max(right - x, -_FEATURE_REACH), _FEATURE_REACH)
        found[k, 4], found[k, 5], found[k, 6] = on_sticky, on_obstacle, min(max(clearance, 0.0), _FEATURE_REACH)
    return found
