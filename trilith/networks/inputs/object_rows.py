"""The objects of each scene as a list of fixed length, for networks that read lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trilith.networks.inputs.scene_batch import Floats32, SceneBatch
from trilith.networks.q.graph import node_features
from trilith.world.observations.objects import FEATURES
from trilith.world.scene import FLOOR, SLOTS, Ints
from trilith.world.tasks import Task

if TYPE_CHECKING:
    from torch import Tensor

ROW_FEATURES = FEATURES + 1
"""The columns of `observations.objects`, then 1 if the row is padding."""


def longest(task: Task) -> int:
    """Length of a list: the largest number of objects in a scene of the task's curriculum."""
    return max(task.max_objects(level) for level in task.levels)


def rows(batch: SceneBatch, length: int) -> Tensor:
    """(B, length, 16): the rows of `observations.objects` in order of appearance, then padding: rows of 0 whose last column is 1.

    If a scene has more than `length` objects, as in generalisation levels, some are left out: first the earliest targets, then the
    earliest obstacles, then the earliest blocks. Available blocks and the floor always stay.
    """
    return batch.once(f"{length} rows", lambda: batch.send(_rows(batch, length)))


def _rows(batch: SceneBatch, length: int) -> Floats32:
    scene, node, row = _places(batch, length)
    listed = np.zeros((len(batch), length, ROW_FEATURES), np.float32)
    listed[..., -1] = 1.0
    listed[scene, row, :FEATURES] = node_features(batch)[scene, node]
    listed[scene, row, FEATURES] = 0.0
    return listed


def _places(batch: SceneBatch, length: int) -> tuple[Ints, Ints, Ints]:
    """Scene, node and row of every entry of the lists. Nodes are the slots, then the objects of the scene as stored."""
    available, present = batch.available, batch.present
    used = SLOTS - available.sum(axis=1, keepdims=True)
    stored = np.arange(present.shape[1])[None]
    # A block that was taken from its slot keeps the slot's row, and is stored before the objects that have their own rows.
    slot = np.argsort(available, axis=1, kind="stable")[:, np.minimum(stored[0], SLOTS - 1)]
    row = np.where(stored < used, slot, SLOTS + stored - used)
    row = np.concatenate([np.broadcast_to(np.arange(SLOTS), available.shape), row], axis=1)
    there = np.concatenate([available, present], axis=1)
    excess = np.maximum(there.sum(axis=1, keepdims=True) - length, 0)
    beyond = row > FLOOR
    there &= ~beyond | (row > FLOOR + excess)
    scene, node = np.nonzero(there)
    return scene, node, np.where(beyond, row - excess, row)[scene, node]
