"""The trunk of all our learning networks: relational attention over the objects of a scene.

Objects are tokens. The relative position of two objects biases the attention between them and is also part of the attended values.

This form learns. `inference.attention` is the same function for agents that only act, without torch. Change both together.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trilith.networks.inputs.objects import MAX_WIDTH, SCALE, SHARP, describe
from trilith.networks.inputs.scene_batch import Floats32, SceneBatch, once_per_batch
from trilith.networks.kernels.relational_attention import Rows, relational_attention


class AttentionLayer(nn.Module):
    """Attention and a small MLP, each with a layer norm before it and a residual connection."""

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
        """(n, width) from `tokens` (n, width) and `pairs` (p, pair). `weight` (heads, pair) turns a pair into a score bias."""
        qkv = self.qkv(self.norm(tokens)).view(len(tokens), 3, self.heads, -1)
        tokens = tokens + self.gather(relational_attention(qkv, pairs, weight, batch))
        return tokens + self.down(F.relu(self.up(self.norm2(tokens))))


class AttentionTrunk(nn.Module):
    """A network with attention layers. A base class instead of a submodule, because shipped weights use these parameter names."""

    def add_layers(self, width: int, layers: int, heads: int, pair: int) -> None:
        """Adds the attention layers, for tokens of `width` units and pairs of `pair` units."""
        self.bias = nn.Linear(pair, layers * heads, bias=False)
        self.layers = nn.ModuleList(AttentionLayer(width, heads, pair) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def add_trunk(self, nodes: int, relations: int, width: int, layers: int, heads: int, pair: int) -> None:
        """Adds the attention layers, and a linear layer before them for objects of `nodes` columns and pairs of `relations` columns."""
        self.node = nn.Linear(nodes, width)
        self.pair = nn.Linear(relations, pair)
        self.add_layers(width, layers, heads, pair)

    def attention(self, tokens: Tensor, pairs: Tensor, batch: SceneBatch | Rows) -> Tensor:
        """(n, width): objects after all layers, from `tokens` (n, width) and from `pairs` (p, pair) before rectification."""
        pairs = F.relu(pairs)
        for layer, weight in zip(self.layers, self.bias.weight.chunk(len(self.layers)), strict=True):
            tokens = layer(tokens, pairs, weight, batch)
        return self.norm(tokens)


class ObjectTrunk(AttentionTrunk):
    """The trunk over the columns of `inputs.objects` for each object and each pair."""

    def object_tokens(self, batch: SceneBatch, scenes: Tensor | None = None) -> Tensor:
        """(n, width): the objects of a batch, scenes one after another. `scenes` (B, width) is added to all objects of a scene."""
        objects, relations = _described(batch)
        tokens = self.node(objects)
        if scenes is not None:
            tokens = tokens + scenes.index_select(0, batch.tensors.scene)
        return self.attention(tokens, self.pair(relations), batch)


def scene_mean(tokens: Tensor, batch: SceneBatch) -> Tensor:
    """(B, width): the mean of the objects (n, width) of each scene."""
    return tokens.new_zeros(len(batch), tokens.shape[1]).index_add(0, batch.tensors.scene, tokens) / batch.tensors.count[:, None]


def send_copy(batch: SceneBatch, array: Floats32) -> Tensor:
    """An array as a tensor on the batch's device, in torch's own memory, because memory alignment changes the last bits of dot products."""
    return batch.send(array).clone()


@once_per_batch
def _described(batch: SceneBatch) -> tuple[Tensor, Tensor]:
    """(n, 19) and (p, 18): the columns of `inputs.objects` for the objects and pairs of a batch."""
    nodes, lengths, links = (send_copy(batch, each) for each in describe(batch))
    near = lengths.clamp(-2 * MAX_WIDTH, 2 * MAX_WIDTH) / SCALE
    return nodes, torch.cat([near, (lengths * SHARP).tanh(), links], dim=1)
