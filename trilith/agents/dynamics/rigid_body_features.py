"""What is known of a placement without learning: rigid bodies, what cannot move, and where the new block would fall straight down to.

All functions take B scenes of up to R objects as padded arrays: everything but the available blocks, in order of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trilith.planners.candidates import LEVEL
from trilith.utils.compiled import compiled
from trilith.world.actions import reference_rows
from trilith.world.scene import Bools, Ints, Role, Scene

Array = NDArray[np.float32]
FALL = 7
"""Numbers of a fall: height at rest, drop, how far the middle is inside the supports to the left and to the right, whether something
sticky carries it, whether an obstacle does, and how far it stays from obstacles."""
_REACH = 1.0
"""Metres beyond which supports and obstacles say nothing more."""
_BLOCK, _TARGET, _OBSTACLE, _FLOOR = int(Role.BLOCK), int(Role.TARGET), int(Role.OBSTACLE), int(Role.FLOOR)


class Placed(NamedTuple):
    """Scenes with a new block at its spawn pose, before anything moves."""

    objects: Ints
    """(B,): objects."""
    new: Ints
    """(B,): which of them is the new block."""
    pose: Array
    """(B, R, 3)"""
    size: Array
    """(B, R, 2)"""
    role: Ints
    """(B, R)"""
    sticky: Bools
    """(B, R)"""
    touch: Bools
    """(B, R, R): which touch."""
    glue: Bools
    """(B, R, R): which are bonded."""

    def take(self, at: Ints) -> Placed:
        """Some of the scenes."""
        parts: Any = [each[at] for each in self]
        return Placed(*parts)


def placed_arrays(scenes: Sequence[Scene], rows: Sequence[int], objects: int = 0) -> Placed:
    """Scenes in which a block has been placed as a row (B,), as arrays with room for that many objects or more."""
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


@compiled
def bodies(glue: Bools, role: Ints, count: Ints) -> tuple[Bools, Bools]:
    """(B, R, R): which objects are one rigid body; and (B, R): which cannot move, being fixed or bonded to the floor."""
    b, r = role.shape
    same, fixed = np.zeros((b, r, r), dtype=np.bool_), np.ones((b, r), dtype=np.bool_)
    for k in range(b):
        group = np.arange(r)
        for i in range(count[k]):
            for j in range(i):
                if glue[k, i, j] and group[i] != group[j]:
                    old, new = max(group[i], group[j]), min(group[i], group[j])
                    for m in range(count[k]):
                        if group[m] == old:
                            group[m] = new
        for i in range(count[k]):
            fixed[k, i] = role[k, i] != _BLOCK
            for j in range(count[k]):
                same[k, i, j] = group[i] == group[j]
                if same[k, i, j] and role[k, j] == _FLOOR:
                    fixed[k, i] = True
    return same, fixed


@compiled
def falls(pose: Array, size: Array, role: Ints, sticky: Bools, count: Ints, new: Ints) -> Array:
    """(B, 7): where the new block of each scene would come to rest if it fell straight down and nothing else moved; see `FALL`."""
    b, r = role.shape
    found = np.zeros((b, FALL), dtype=np.float32)
    for k in range(b):
        me, n = new[k], count[k]
        x, half = pose[k, me, 0], size[k, me, 1] / 2
        bottom, begin, end = pose[k, me, 1] - half, x - size[k, me, 0] / 2, x + size[k, me, 0] / 2
        ground = np.float32(-0.0)
        tops = np.empty(r, dtype=np.float32)
        for i in range(n):
            c, s = abs(np.cos(pose[k, i, 2])), abs(np.sin(pose[k, i, 2]))
            across = (size[k, i, 0] * c + size[k, i, 1] * s) / 2
            tops[i] = pose[k, i, 1] + (size[k, i, 0] * s + size[k, i, 1] * c) / 2
            under = i != me and role[k, i] != _TARGET and pose[k, i, 0] - across < end and begin < pose[k, i, 0] + across
            if under and tops[i] <= bottom + LEVEL / 4:
                ground = max(ground, tops[i])
        left, right, clear = x + _REACH, x - _REACH, np.float32(_REACH)
        held = stone = np.float32(0.0)
        for i in range(n):
            if i == me or role[k, i] == _TARGET:
                continue
            c, s = abs(np.cos(pose[k, i, 2])), abs(np.sin(pose[k, i, 2]))
            across = (size[k, i, 0] * c + size[k, i, 1] * s) / 2
            west, east = pose[k, i, 0] - across, pose[k, i, 0] + across
            if west < end and begin < east and tops[i] <= bottom + LEVEL / 4 and tops[i] >= ground - LEVEL:
                left, right = min(left, max(west, begin)), max(right, min(east, end))
                held = max(held, np.float32(sticky[k, i]))
                if role[k, i] == _OBSTACLE:
                    stone = np.float32(1.0)
            low = 2 * pose[k, i, 1] - tops[i]
            if role[k, i] == _OBSTACLE and tops[i] > ground and low < bottom + 2 * half:
                clear = min(clear, max(west - end, begin - east, np.float32(0.0)))
        found[k, 0], found[k, 1] = ground + half, bottom - ground
        found[k, 2], found[k, 3] = min(max(x - left, -_REACH), _REACH), min(max(right - x, -_REACH), _REACH)
        found[k, 4], found[k, 5], found[k, 6] = held, stone, clear
    return found
