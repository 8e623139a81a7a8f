"""Rigid groups: objects that glue joins into one rigid body."""

from __future__ import annotations

import numpy as np

from trilith.utils.compiled import compiled
from trilith.world.geometry.rectangles import Bools, Ints


def bond_matrix(glue: Ints, objects: int) -> Bools:
    """(objects, objects): entry (i, j) is True for each pair (i, j) of `glue` (G, 2). Entry (j, i) stays False."""
    bonded = np.zeros((objects, objects), dtype=bool)
    bonded[glue[:, 0], glue[:, 1]] = True
    return bonded


@compiled
def rigid_groups(bonded: Bools) -> Ints:
    """(N,): for each object the lowest row of its rigid group, which may be its own. `bonded` (N, N) is True for bonded pairs; it is enough
    if one of the entries (i, j) and (j, i) is True."""
    group = np.empty(len(bonded), dtype=np.int64)
    for i in range(len(bonded)):
        group[i] = i
        for j in range(i):
            if bonded[i, j] or bonded[j, i]:
                _merge(group[: i + 1], group[i], group[j])
    return group


@compiled
def glued_groups(glue: Ints, objects: int) -> Ints:
    """(objects,): the result of `rigid_groups`, computed from the pairs `glue` (G, 2)."""
    group = np.empty(objects, dtype=np.int64)
    for i in range(objects):
        group[i] = i
    for i, j in glue:
        _merge(group, group[i], group[j])
    return group


@compiled
def _merge(group: Ints, one: int, two: int) -> None:
    """Merges two groups in place: all their objects get the lower of the two numbers."""
    for k in range(len(group)):
        if group[k] == max(one, two):
            group[k] = min(one, two)
