"""The trunk of all our learning networks: relational attention over the objects of a scene.

Objects are tokens. The relative position of two objects biases the attention between them and is also part of the attended values.
Scenes are packed one after another. With a dozen objects per scene the matrices are so small that the overhead of a library call
exceeds the arithmetic, so the CPU runs compiled loops (`kernels.forward`). They also store no score bias per pair of objects, and pad
nothing. On other devices `relational_attention_plain` computes the same function.

This form learns. `inference.attention` is the same function for agents that only act, without torch. Change both together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from trilith.networks.inputs.objects import MAX_WIDTH, SCALE, SHARP, describe
from trilith.networks.inputs.scene_batch import Floats32, SceneBatch, once_per_batch
from trilith.networks.kernels.forward import attention_backward, attention_forward
from trilith.world.scene import Ints


class Rows(NamedTuple):
    """Where the objects and the pairs of each scene begin, and where the last scene's end. On the CPU no more of a batch is needed."""

    first: Ints
    """(B + 1,)"""
    first_pair: Ints
    """(B + 1,)"""


def relational_attention(qkv: Tensor, pairs: Tensor, weight: Tensor, batch: SceneBatch | Rows) -> Tensor:
    """(n, heads · (d + P)): for each object, the attention-weighted values of the objects in its scene, then of the pair features.

    `qkv` (n, 3, heads, d) are queries, keys and values of all objects. `pairs` (p, P) are features of the relative position of each pair
    in a scene, ordered by the object that attends. A score is the scaled product of query and key plus `weight` (heads, P) · pair.
    The objects of scene b are rows `batch.first[b]` to `batch.first[b + 1]`; `batch.first_pair` gives its pairs in the same way.
    """
    if isinstance(batch, Rows) or qkv.device.type == "cpu":
        return _Attend.apply(qkv, pairs, weight, batch.first, batch.first_pair)
    return relational_attention_plain(qkv, pairs, weight, batch)


def relational_attention_plain(qkv: Tensor, pairs: Tensor, weight: Tensor, batch: SceneBatch) -> Tensor:
    """`relational_attention` in tensor operations, padded, for any device."""
    heads, d, wide = *qkv.shape[2:], pairs.shape[1]
    b, r = batch.present.shape
    rows, places = batch.tensors.place, batch.tensors.pair_place
    query, key, value = qkv.new_zeros(b * r, 3, heads, d).index_copy(0, rows, qkv).view(b, r, 3, heads, d).unbind(2)
    pairs = pairs.new_zeros(b * r * r, wide).index_copy(0, places, pairs).view(b, r, r, wide)
    scores = torch.einsum("bihd,bjhd->bijh", query, key) * d**-0.5 + pairs @ weight.t()
    least = torch.finfo(scores.dtype).min  # not -inf, because softmax over a scene without objects would be NaN
    shares = scores.masked_fill(~batch.tensors.present[:, None, :, None], least).softmax(dim=2)
    seen = torch.einsum("bijh,bjhd->bihd", shares, value).reshape(b * r, heads * d)
    beside = torch.einsum("bijh,bijp->bihp", shares, pairs).reshape(b * r, heads * wide)
    return torch.cat([seen, beside], dim=1).index_select(0, rows)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, pairs: Tensor, weight: Tensor, first: Ints, first_pair: Ints) -> Tensor:
        n, _, heads, d = qkv.shape
        out, shares = qkv.new_zeros(n, heads * (d + pairs.shape[1])), qkv.new_empty(len(pairs), heads)
        given = [each.detach().contiguous() for each in (qkv, pairs, weight)]
        qkv_, pairs_, weight_ = (each.numpy() for each in given)
        attention_forward(qkv_, pairs_, weight_, first, first_pair, out.numpy(), shares.numpy())
        ctx.save_for_backward(*given, shares)
        ctx.first, ctx.first_pair = first, first_pair
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        qkv, pairs, weight, shares = ctx.saved_tensors
        back = torch.zeros_like(qkv), torch.zeros_like(pairs), torch.zeros_like(weight)
        given = grads[0].contiguous().numpy(), qkv.numpy(), pairs.numpy(), weight.numpy(), shares.numpy()
        attention_backward(*given, *(each.numpy() for each in back), ctx.first, ctx.first_pair)  # type: ignore[call-arg]
        return *back, None, None


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
