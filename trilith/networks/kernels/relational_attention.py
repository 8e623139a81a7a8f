"""Attention between the objects of each scene, with scenes packed one after another: compiled loops on the CPU, tensors elsewhere.

With a dozen objects per scene the matrices are so small that the overhead of a library call exceeds the arithmetic. The loops below
also store no score bias per pair of objects, and pad nothing. On other devices `relational_attention_plain` computes the same
function.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trilith.networks.inputs.scene_batch import SceneBatch
from trilith.networks.kernels.inference import attention_backward, attention_forward
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
