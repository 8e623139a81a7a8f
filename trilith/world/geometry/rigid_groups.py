"""Rigid groups: objects that glue joins into one rigid body."""

from __future__ import annotations

import numpy as np

from trilith.utils.compiled import compiled
from trilith.world.geometry.rectangles import Bools, Ints


def bond_matrix(glue: Ints, objects: int) -> Bools:
    """(objects, objects): True for the pairs of bonded rows. `glue` (G, 2) lists these pairs."""
    bonded = np.zeros((objects, objects), dtype=bool)
    bonded[glue[:, 0], glue[:, 1]] = True
    return bonded


@compiled
def rigid_groups(bonded: Bools) -> Ints:
    """(N,): the first row of each object's rigid body. `bonded` (N, N) are the glued pairs; (i, j) also means (j, i)."""
    group = np.empty(len(bonded), dtype=np.int64)
    for i in range(len(bonded)):
        group[i] = i
        for j in range(i):
            if bonded[i, j] or bonded[j, i]:
                _merge(group[: i + 1], group[i], group[j])
    return group


@compiled
def glued_groups(glue: Ints, objects: int) -> Ints:
    """(objects,): the same from the pairs `glue` (G, 2)."""
    group = np.empty(objects, dtype=np.int64)
    for i in range(objects):
        group[i] = i
    for i, j in glue:
        _merge(group, group[i], group[j])
    return group


@compiled
def _merge(group: Ints, one: int, two: int) -> None:
    """Gives all objects of two groups the lower of their two numbers."""
    for k in range(len(group)):
        if group[k] == max(one, two):
            group[k] = min(one, two)
