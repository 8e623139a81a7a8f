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
    group = np.arange(len(bonded))
    for i in range(len(bonded)):
        for j in range(i):
            if (bonded[i, j] or bonded[j, i]) and group[i] != group[j]:
                group[group == max(group[i], group[j])] = min(group[i], group[j])
    return group


@compiled
def glued_groups(glue: Ints, objects: int) -> Ints:
    """(objects,): the same from the pairs `glue` (G, 2)."""
    group = np.arange(objects)
    for i, j in glue:
        if group[i] != group[j]:
            group[group == max(group[i], group[j])] = min(group[i], group[j])
    return group
