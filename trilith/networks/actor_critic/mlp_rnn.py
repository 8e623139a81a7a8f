"""The paper's MLP and RNN (§C.1). They read the objects of a scene as a list, padded to a fixed length."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from trilith.networks.inputs.scene_batch import SceneBatch, once_per_batch
from trilith.networks.q.graph import node_features
from trilith.world.observations.objects import FEATURES
from trilith.world.scene import FLOOR, SLOTS, Ints
from trilith.world.tasks import Task

ROW_FEATURES = FEATURES + 1
"""Number of features of a row: the 15 columns of `observations.objects`, and a column that is 1 if the row is padding."""


def longest(task: Task) -> int:
    """Length of the padded list: the largest number of objects in any scene of the task's curriculum."""
    return max(task.max_objects(level) for level in task.levels)


class MLPEncoder(nn.Module):
    """Encodes the padded list of objects as one vector: a linear layer to 100 features, then a layer norm.

    The paper says that the list is "normalized with a LayerNorm layer into a fixed set of 100 features". We assume that a linear
    layer first maps the list to 100 features.
    """

    def __init__(self, length: int, features: int = 100) -> None:
        super().__init__()
        self.length = length
        self.linear = nn.Linear(length * ROW_FEATURES, features)
        self.norm = nn.LayerNorm(features)

    def forward(self, batch: SceneBatch) -> Tensor:
        """Returns the encoded scenes (B, features) of a batch of B scenes."""
        return self.norm(self.linear(rows(batch, self.length).flatten(1)))


class RNNEncoder(nn.Module):
    """A GRU that reads the padded list of objects, one after another in row order. Its output is the hidden state after the last row of the
    list."""

    def __init__(self, length: int, width: int = 256, clip: bool = True) -> None:
        """`length` is the length of the padded list. If a scene has more objects and `clip` is True, some objects are left out (see
        `rows`). If `clip` is False, the longer list is read."""
        super().__init__()
        self.length, self.clip = length, clip
        self.gru = nn.GRU(ROW_FEATURES, width, batch_first=True)

    def forward(self, batch: SceneBatch) -> Tensor:
        """Returns the encoded scenes (B, width) of a batch of B scenes."""
        if self.clip:
            return self.gru(rows(batch, self.length))[1][0]
        lengths = np.maximum(batch.nodes.sum(axis=1), self.length)
        states, _ = self.gru(rows(batch, int(lengths.max())))
        return states[torch.arange(len(batch), device=states.device), batch.send(lengths - 1)]


@once_per_batch
def rows(batch: SceneBatch, length: int) -> Tensor:
    """The padded lists of objects (B, length, 16) of B scenes. First come the rows of `observations.objects` in row order, then padding. A
    padding row is 0, except for its last column, which is 1.

    If a scene has more than `length` objects, as in generalisation levels, some are left out: first the earliest targets, then the earliest
    obstacles, then the earliest blocks. Available blocks and the floor always stay.
    """
    scene, node, row = _places(batch, length)
    listed = np.zeros((len(batch), length, ROW_FEATURES), np.float32)
    listed[..., -1] = 1.0
    listed[scene, row, :FEATURES] = node_features(batch)[scene, node]
    listed[scene, row, FEATURES] = 0.0
    return batch.send(listed)


def _places(batch: SceneBatch, length: int) -> tuple[Ints, Ints, Ints]:
    """Says where the objects of a batch go in the padded lists of `length` rows. Returns three index arrays with one entry for each object
    that is listed: its scene, its node, and its row in the list. Nodes 0 to 6 are the slots; the other nodes are the objects of the scene
    in stored order."""
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
