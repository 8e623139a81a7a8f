"""Relational attention over the objects of a scene, as torch modules. All our own networks use it as their trunk.

Objects are tokens. Features of the relative position of two objects bias the attention between them, and are also part of the attended
values. The scenes of a batch are packed: their objects follow one another without padding. With about a dozen objects per scene the
matrices are so small that the overhead of a library call exceeds the arithmetic. So the CPU runs compiled loops (`kernels.forward`). These
loops also need no padding, and they do not store the biases of scores. On other devices `relational_attention_plain` computes the same
function.

This module is for learning. `inference.attention` computes the same function without torch, for agents that only act. Change both together.
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
    """Says which rows belong to each of B packed scenes, whose objects follow one another without padding. Attention on the CPU needs
    nothing else of a batch."""

    first: Ints
    """(B + 1,): the row of the first object of each scene, followed by the number of all objects."""
    first_pair: Ints
    """(B + 1,): the row of the first pair of objects of each scene, followed by the number of all pairs."""


def relational_attention(qkv: Tensor, pairs: Tensor, weight: Tensor, batch: SceneBatch | Rows) -> Tensor:
    """Returns (n, heads · (d + P)), a row for each of n objects. The first heads · d numbers are, for each head, the attention-weighted
    mean of the values of all objects in the scene. The others are, for each head, the attention-weighted mean of the features of the pairs
    in which the object is the first.

    `qkv` (n, 3, heads, d) are the queries, keys and values of all objects. `pairs` (p, P) are the features of all ordered pairs of objects
    in the same scene, in the order of `SceneBatch.pairs`. An attention score is the scaled dot product of query and key plus a bias. The
    bias is the dot product of the head's row of `weight` (heads, P) and the features of the pair.

    The objects of scene b are the rows from `batch.first[b]` up to but not including `batch.first[b + 1]`. Its pairs are the rows from
    `batch.first_pair[b]` up to but not including `batch.first_pair[b + 1]`. With `Rows`, all tensors must be on the CPU.
    """
    if isinstance(batch, Rows) or qkv.device.type == "cpu":
        return _Attend.apply(qkv, pairs, weight, batch.first, batch.first_pair)
    return relational_attention_plain(qkv, pairs, weight, batch)


def relational_attention_plain(qkv: Tensor, pairs: Tensor, weight: Tensor, batch: SceneBatch) -> Tensor:
    """Computes the same function as `relational_attention` by tensor operations on padded scenes, for any device."""
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
    """Attention, then an MLP with one hidden layer. Each of the two has a layer norm before it and a residual connection."""

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
        """Returns the new tokens (n, width) of n objects. `tokens` (n, width) are their old tokens, `pairs` (p, pair) the features of all
        pairs of objects in the same scene. `weight` (heads, pair) maps the features of a pair to a bias of its attention score in each
        head."""
        qkv = self.qkv(self.norm(tokens)).view(len(tokens), 3, self.heads, -1)
        tokens = tokens + self.gather(relational_attention(qkv, pairs, weight, batch))
        return tokens + self.down(F.relu(self.up(self.norm2(tokens))))


class AttentionTrunk(nn.Module):
    """Base class of networks with attention layers. Networks inherit from this class instead of holding it as a submodule, so that the
    names of their parameters have no prefix; shipped weights use these names."""

    def add_layers(self, width: int, layers: int, heads: int, pair: int) -> None:
        """Adds the attention layers, for tokens of `width` units and pair features of `pair` units."""
        self.bias = nn.Linear(pair, layers * heads, bias=False)
        self.layers = nn.ModuleList(AttentionLayer(width, heads, pair) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def add_trunk(self, nodes: int, relations: int, width: int, layers: int, heads: int, pair: int) -> None:
        """Adds two linear layers and then the attention layers. One linear layer reads objects with `nodes` columns, the other reads pairs
        with `relations` columns."""
        self.node = nn.Linear(nodes, width)
        self.pair = nn.Linear(relations, pair)
        self.add_layers(width, layers, heads, pair)

    def attention(self, tokens: Tensor, pairs: Tensor, batch: SceneBatch | Rows) -> Tensor:
        """Returns the tokens (n, width) of n objects after all attention layers. `tokens` (n, width) are the tokens before them. `pairs`
        (p, pair) are the features of all pairs of objects in the same scene, before a ReLU, which is applied here."""
        pairs = F.relu(pairs)
        for layer, weight in zip(self.layers, self.bias.weight.chunk(len(self.layers)), strict=True):
            tokens = layer(tokens, pairs, weight, batch)
        return self.norm(tokens)


class ObjectTrunk(AttentionTrunk):
    """An attention trunk whose inputs are the columns that `inputs.objects` computes for each object and each pair of objects."""

    def object_tokens(self, batch: SceneBatch, scenes: Tensor | None = None) -> Tensor:
        """Returns the tokens (n, width) of the n objects of a batch after all attention layers, one scene after another. `scenes` (B,
        width), if given, has a row for each of B scenes. This row is added to the input tokens of all objects of the scene."""
        objects, relations = _described(batch)
        tokens = self.node(objects)
        if scenes is not None:
            tokens = tokens + scenes.index_select(0, batch.tensors.scene)
        return self.attention(tokens, self.pair(relations), batch)


def scene_mean(tokens: Tensor, batch: SceneBatch) -> Tensor:
    """Returns the mean (B, width) of the tokens of each of B scenes. `tokens` (n, width) has the tokens of all objects, one scene after
    another."""
    return tokens.new_zeros(len(batch), tokens.shape[1]).index_add(0, batch.tensors.scene, tokens) / batch.tensors.count[:, None]


def send_copy(batch: SceneBatch, array: Floats32) -> Tensor:
    """Copies an array to a tensor on the batch's device. The copy makes results equal to the last bit whenever a computation is repeated:
    dot products depend in their last bits on how memory is aligned, and torch always aligns its own memory in the same way."""
    return batch.send(array).clone()


@once_per_batch
def _described(batch: SceneBatch) -> tuple[Tensor, Tensor]:
    """Returns the input columns of `inputs.objects` for a batch: (n, 19) for n objects, and (p, 18) for p pairs of objects in the same
    scene."""
    nodes, lengths, links = (send_copy(batch, each) for each in describe(batch))
    near = lengths.clamp(-2 * MAX_WIDTH, 2 * MAX_WIDTH) / SCALE
    return nodes, torch.cat([near, (lengths * SHARP).tanh(), links], dim=1)
