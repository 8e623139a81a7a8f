"""Attention between the objects of each scene, which are packed one after another: compiled loops on the CPU, tensors elsewhere.

With a dozen objects a scene, matrices are so small that a library spends more time around them than in them. The loops below
also need no memory for how much each pair of objects adds to a score, and nothing is padded. On other devices `attend_plain`
computes the same function.
"""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from trilith.nets.batch import Batch
from trilith.support.compiled import compiled
from trilith.world.scene import Ints

Array = NDArray[np.float32]


def attend(qkv: Tensor, pairs: Tensor, weight: Tensor, batch: Batch) -> Tensor:
    """(n, heads · (d + P)): what each object sees of the others of its scene: their values, then how they lie to it.

    `qkv` (n, 3, heads, d) are queries, keys and values of all objects, `pairs` (p, P) how each two of a scene lie to each other,
    the one that looks first. A score is the scaled product of query and key plus `weight` (heads, P) · pair.
    The objects of scene b are rows `batch.first[b]` to `batch.first[b + 1]`, its pairs likewise by `batch.first_pair`.
    """
    return (attend_compiled if qkv.device.type == "cpu" else attend_plain)(qkv, pairs, weight, batch)


def attend_plain(qkv: Tensor, pairs: Tensor, weight: Tensor, batch: Batch) -> Tensor:
    """`attend` in tensor operations, padded, for any device."""
    heads, d, wide = *qkv.shape[2:], pairs.shape[1]
    b, r = batch.present.shape
    rows, places = batch.padded
    query, key, value = qkv.new_zeros(b * r, 3, heads, d).index_copy(0, rows, qkv).view(b, r, 3, heads, d).unbind(2)
    pairs = pairs.new_zeros(b * r * r, wide).index_copy(0, places, pairs).view(b, r, r, wide)
    scores = torch.einsum("bihd,bjhd->bijh", query, key) * d**-0.5 + pairs @ weight.t()
    least = torch.finfo(scores.dtype).min  # not -inf, which in a scene without objects would leave nothing to share
    shares = scores.masked_fill(~batch.present[:, None, :, None], least).softmax(dim=2)
    seen = torch.einsum("bijh,bjhd->bihd", shares, value).reshape(b * r, heads * d)
    beside = torch.einsum("bijh,bijp->bihp", shares, pairs).reshape(b * r, heads * wide)
    return torch.cat([seen, beside], dim=1).index_select(0, rows)


def attend_compiled(qkv: Tensor, pairs: Tensor, weight: Tensor, batch: Batch) -> Tensor:
    """`attend` in compiled loops, for the CPU."""
    out: Tensor = _Attend.apply(qkv, pairs, weight, batch.first, batch.first_pair)
    return out


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, pairs: Tensor, weight: Tensor, first: Ints, first_pair: Ints) -> Tensor:
        n, _, heads, d = qkv.shape
        out, shares = qkv.new_zeros(n, heads * (d + pairs.shape[1])), qkv.new_empty(len(pairs), heads)
        given = [each.detach().contiguous() for each in (qkv, pairs, weight)]
        qkv_, pairs_, weight_ = (each.numpy() for each in given)
        _forward(qkv_, pairs_, weight_, first, first_pair, out.numpy(), shares.numpy())
        ctx.save_for_backward(*given, shares)
        ctx.first, ctx.first_pair = first, first_pair
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        qkv, pairs, weight, shares = ctx.saved_tensors
        back = torch.zeros_like(qkv), torch.zeros_like(pairs), torch.zeros_like(weight)
        given = grads[0].contiguous().numpy(), qkv.numpy(), pairs.numpy(), weight.numpy(), shares.numpy()
        _backward(*given, *(each.numpy() for each in back), ctx.first, ctx.first_pair)  # type: ignore[call-arg]
        return *back, None, None


@compiled(reorder=True)
def _forward(qkv: Array, pairs: Array, weight: Array, first: Ints, first_pair: Ints, out: Array, shares: Array) -> None:
    """Fills `out` (n, heads · (d + P)), which is 0, and `shares` (p, heads): how much of each pair is looked at."""
    heads, d = qkv.shape[2:]
    wide = pairs.shape[1]
    scale = np.float32(d**-0.5)
    for b in range(len(first) - 1):
        start, count = first[b], first[b + 1] - first[b]
        for i in range(count):
            at = first_pair[b] + i * count
            for h in range(heads):
                query, own = qkv[start + i, 0, h], weight[h]
                most = np.float32(-np.inf)
                for j in range(count):
                    key, pair = qkv[start + j, 1, h], pairs[at + j]
                    match, bias = np.float32(0), np.float32(0)
                    for e in range(d):
                        match += query[e] * key[e]
                    for e in range(wide):
                        bias += own[e] * pair[e]
                    score = match * scale + bias
                    shares[at + j, h] = score
                    most = max(most, score)
                total = np.float32(0)
                for j in range(count):
                    part = np.float32(exp(shares[at + j, h] - most))
                    shares[at + j, h] = part
                    total += part
                seen = out[start + i, h * d : (h + 1) * d]
                beside = out[start + i, heads * d + h * wide : heads * d + (h + 1) * wide]
                for j in range(count):
                    part = shares[at + j, h] / total
                    shares[at + j, h] = part
                    value, pair = qkv[start + j, 2, h], pairs[at + j]
                    for e in range(d):
                        seen[e] += part * value[e]
                    for e in range(wide):
                        beside[e] += part * pair[e]


@compiled(reorder=True)
def _backward(
    grad: Array,
    qkv: Array,
    pairs: Array,
    weight: Array,
    shares: Array,
    qkv_grad: Array,
    pairs_grad: Array,
    weight_grad: Array,
    first: Ints,
    first_pair: Ints,
) -> None:
    """Adds to the gradients of what `_forward` was given, from that of its `out`."""
    heads, d = qkv.shape[2:]
    wide = pairs.shape[1]
    scale = np.float32(d**-0.5)
    of_share = np.empty(len(pairs), np.float32)
    for b in range(len(first) - 1):
        start, count = first[b], first[b + 1] - first[b]
        for i in range(count):
            at = first_pair[b] + i * count
            for h in range(heads):
                seen = grad[start + i, h * d : (h + 1) * d]
                beside = grad[start + i, heads * d + h * wide : heads * d + (h + 1) * wide]
                mean = np.float32(0)
                for j in range(count):
                    value, value_grad, pair = qkv[start + j, 2, h], qkv_grad[start + j, 2, h], pairs[at + j]
                    part, both, more = shares[at + j, h], np.float32(0), np.float32(0)
                    for e in range(d):
                        both += seen[e] * value[e]
                        value_grad[e] += part * seen[e]
                    for e in range(wide):
                        more += beside[e] * pair[e]
                    of_share[j] = both + more
                    mean += part * of_share[j]
                query, query_grad, own, own_grad = qkv[start + i, 0, h], qkv_grad[start + i, 0, h], weight[h], weight_grad[h]
                for j in range(count):
                    key, key_grad, pair, pair_grad = qkv[start + j, 1, h], qkv_grad[start + j, 1, h], pairs[at + j], pairs_grad[at + j]
                    part = shares[at + j, h]
                    of_score = part * (of_share[j] - mean)
                    for e in range(wide):
                        own_grad[e] += of_score * pair[e]
                        pair_grad[e] += part * beside[e] + of_score * own[e]
                    of_score *= scale
                    for e in range(d):
                        query_grad[e] += of_score * key[e]
                        key_grad[e] += of_score * query[e]
