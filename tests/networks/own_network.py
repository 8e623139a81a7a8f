"""A network of Q-values of one's own, of which no file of the package knows: Deep Sets over objects, by `own_network:DeepSets`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trilith.networks.config import Mask, NetConfig
from trilith.networks.inputs.objects import NODE_FEATURES, describe
from trilith.networks.inputs.scene_batch import KINDS, ReplaySchema, SceneBatch
from trilith.networks.layers.attention import scene_mean
from trilith.networks.q.base import BlockTypeQNetwork


class DeepSets(BlockTypeQNetwork):
    """The value of placing a kind of block by an object: an MLP of the object and of the mean of all objects."""

    def __init__(self, schema: ReplaySchema, mask: Mask, net: NetConfig) -> None:
        super().__init__(schema, mask)
        self.object = nn.Linear(NODE_FEATURES, net.width)
        self.mean = nn.Linear(net.width, net.width, bias=False)
        self.out = nn.Linear(net.width, KINDS * self.outputs)

    def q(self, batch: SceneBatch) -> Tensor:
        """(B, 3, R, outputs)"""
        tokens = F.relu(self.object(batch.send(describe(batch)[0])))
        whole = self.mean(scene_mean(tokens, batch)).index_select(0, batch.tensors.scene)
        values = self.out(F.relu(tokens + whole))
        rows = values.new_zeros(batch.present.size, values.shape[1]).index_copy(0, batch.tensors.place, values)
        return rows.view(*batch.present.shape, KINDS, self.outputs).transpose(1, 2)

    def q_at(self, batch: SceneBatch, index: Tensor, scenes: Tensor | None = None) -> Tensor:
        """(m,)"""
        scenes = torch.arange(len(batch)) if scenes is None else scenes
        return self.q(batch).flatten(1)[scenes, self.place(index, batch.present.shape[1])]
