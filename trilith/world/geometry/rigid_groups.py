"""Rigid groups: objects that glue joins into one rigid body."""

from __future__ import annotations

import numpy as np

from trilith.utils.compiled import compiled
from trilith.world.geometry.rectangles import Bools, Ints


def bond_matrix(glue: Ints, objects: int) -> Bools:
    """Mask (objects, objects): entry (i, j) is True for each pair (i, j) of `glue` (G, 2), the bonded pairs of rows. Entry (j, i) stays
    False."""
    bonded = np.zeros((objects, objects), dtype=bool)
    bonded[glue[:, 0], glue[:, 1]] = True
    return bonded


@compiled
def rigid_groups(bonded: Bools) -> Ints:
    """(N,): for each of N objects the lowest row of its rigid group, which may be its own row. A rigid group is the objects that bonds
    join, directly or through other objects. `bonded` (N, N) has True at (i, j) or at (j, i) if the objects i and j are bonded."""
    group = np.empty(len(bonded), dtype=np.int64)
    for i in range(len(bonded)):
        group[i] = i
        for j in range(i):
            if bonded[i, j] or bonded[j, i]:
                _merge(group[: i + 1], group[i], group[j])
    return group


@compiled
def glued_groups(glue: Ints, objects: int) -> Ints:
    """(objects,): for each object the lowest row of its rigid group, which may be its own row. A rigid group is the objects that bonds
    join, directly or through other objects. `glue` (G, 2) has the bonded pairs of rows."""
    group = np.empty(objects, dtype=np.int64)
    for i in range(objects):
        group[i] = i
    for i, j in glue:
        _merge(group, group[i], group[j])
    return group


@compiled
def _merge(group: Ints, one: int, two: int) -> None:
    """Merges two groups in place. `group` (N,) has the number of each object's group. All objects of the groups `one` and `two` get the
    lower of these two numbers."""
    for k in range(len(group)):
        if group[k] == max(one, two):
            group[k] = min(one, two)
