"""Attention over the objects of a scene: the transformer of `objects` and, with other tokens, of the networks from pixels.

Objects are tokens. How two of them lie to each other biases the attention between them and travels along with what is
attended to. Identical available blocks are merged into kinds, which enter as how many are left.

This form learns. `inference.attention.ActingKinds` is the same function for agents that only act, without torch: what changes here
changes there.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trilith.networks.inference.attention import kind_mask
from trilith.networks.inputs.objects import MAX_WIDTH, SCALE, SHARP, clock, describe
from trilith.networks.inputs.scene_batch import Floats32, SceneBatch
from trilith.networks.kernels.relational_attention import Rows, attend
from trilith.networks.q.base import QNet


class KindQNet(QNet):
    """Values of placing a kind of block by an object, (B, 3, R, outputs). Knows no edges between objects alone: the mask `none` is not
    for it."""

    by_kind = True

    @abstractmethod
    def encode(self, batch: SceneBatch) -> Tensor:
        """What values need to know of the scenes, one row an object at least; scenes one after another."""

    @abstractmethod
    def _every(self, batch: SceneBatch, references: Tensor) -> Tensor:
        """(B, 3, R, outputs): the values of all actions, given what `encode` says of the scenes; 0 where the mask allows nothing."""

    @abstractmethod
    def _at(self, batch: SceneBatch, references: Tensor, index: Tensor, scenes: Tensor | None) -> Tensor:
        """(m,): the values of actions by index (m,) in scenes (m,) of the batch; None: one in each."""

    def q(self, batch: SceneBatch) -> Tensor:
        return self._every(batch, self.encode(batch))

    def q_at(self, batch: SceneBatch, index: Tensor, scenes: Tensor | None = None) -> Tensor:
        return self._at(batch, self.encode(batch), index, scenes)

    def mask(self, batch: SceneBatch) -> Tensor:
        return batch.send(kind_mask(batch, self.mask_rule, self.outputs))


def tokens_of(net: Any, batch: SceneBatch, scenes: Tensor | None = None) -> Tensor:
    """(n, width): the objects of a batch, scenes one after another, by the layers of a network that has them as `ObjectsNet` does.

    `scenes` (B, width) is added to all objects of a scene.
    """
    objects, relations = batch.once("described", lambda: _described(batch))
    tokens = net.node(objects)
    if scenes is not None:
        tokens = tokens + scenes.index_select(0, batch.tensors.scene)
    pairs = F.relu(net.pair(relations))
    for layer, weight in zip(net.layers, net.bias.weight.split(net.heads), strict=True):
        tokens = layer(tokens, pairs, weight, batch)
    return net.norm(tokens)


def clock_of(batch: SceneBatch) -> Tensor:
    """(B, 3): what `clock` says of how many steps are left."""
    assert batch.steps_left is not None, "the schema does not store how many steps are left"
    return _sent(batch, clock(batch.steps_left))


def _described(batch: SceneBatch) -> tuple[Tensor, Tensor]:
    """(n, 19) and (p, 18): what `describe` says of the objects and pairs of a batch."""
    nodes, lengths, links = (_sent(batch, each) for each in describe(batch))
    near = lengths.clamp(-2 * MAX_WIDTH, 2 * MAX_WIDTH) / SCALE
    return nodes, torch.cat([near, (lengths * SHARP).tanh(), links], dim=1)


def _sent(batch: SceneBatch, array: Floats32) -> Tensor:
    """An array as a tensor where the batch is, in memory of torch's own: where that begins changes the last bits of sums of products."""
    return batch.send(array).clone()


class AttentionLayer(nn.Module):
    """Attention and a small MLP, each behind a norm and beside a residual."""

    def __init__(self, width: int, heads: int, pair: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.gather = nn.Linear(width + heads * pair, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, tokens: Tensor, pairs: Tensor, weight: Tensor, batch: SceneBatch | Rows) -> Tensor:
        """(n, width) from the same, `pairs` (p, pair), and what a pair adds to scores by, (heads, pair)."""
        qkv = self.qkv(self.norm(tokens)).view(len(tokens), 3, self.heads, -1)
        tokens = tokens + self.gather(attend(qkv, pairs, weight, batch))
        return tokens + self.down(F.relu(self.up(self.norm2(tokens))))
