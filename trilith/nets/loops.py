"""The compiled loops of the networks: attention forward and backward, and what acting without torch needs besides.

Rows are computed one by one, in an order of their own: what they come out as depends neither on the rows beside them nor on
how many threads there are, to the last bit.
"""

from __future__ import annotations

from math import exp, sqrt

import numpy as np

from trilith.nets.batch import Floats32 as Array
from trilith.support.compiled import compiled
from trilith.world.scene import Ints


@compiled(reorder=True)
def linear(x: Array, weight: Array, bias: Array, rectify: bool) -> Array:
    """(n, outputs): x (n, inputs) · weight (inputs, outputs) + bias (outputs,), `rectify`: not below 0."""
    inputs, outputs = weight.shape
    y = np.empty((len(x), outputs), np.float32)
    for i in range(len(x)):
        given, row = x[i], y[i]
        for j in range(outputs):
            row[j] = bias[j]
        for k in range(0, inputs - 3, 4):  # four at a time: a row that is being summed up is read and written a quarter as often
            a, b, c, d = given[k], given[k + 1], given[k + 2], given[k + 3]
            of_a, of_b, of_c, of_d = weight[k], weight[k + 1], weight[k + 2], weight[k + 3]
            for j in range(outputs):
                row[j] += a * of_a[j] + b * of_b[j] + c * of_c[j] + d * of_d[j]
        for k in range(inputs - inputs % 4, inputs):
            of_k = weight[k]
            for j in range(outputs):
                row[j] += given[k] * of_k[j]
        if rectify:
            for j in range(outputs):
                row[j] = max(row[j], np.float32(0))
    return y


@compiled(reorder=True)
def layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    """(n, width): rows x (n, width) with mean 0 and variance 1, then times weight (width,) plus bias (width,)."""
    y, width = np.empty_like(x), np.float32(x.shape[1])
    for i in range(len(x)):
        row, mean, spread = x[i], np.float32(0), np.float32(0)
        for j in range(len(row)):
            mean += row[j]
        mean /= width
        for j in range(len(row)):
            spread += (row[j] - mean) ** 2
        scale = np.float32(1 / sqrt(spread / width + 1e-5))  # the same small number that torch adds
        for j in range(len(row)):
            y[i, j] = (row[j] - mean) * scale * weight[j] + bias[j]
    return y


@compiled(reorder=True)
def mean_rows(x: Array, first: Ints) -> Array:
    """(B, width): the mean of the rows of x (n, width) from `first[b]` to `first[b + 1]`; 0 where there are none."""
    y = np.zeros((len(first) - 1, x.shape[1]), np.float32)
    for b in range(len(y)):
        mean = y[b]
        for i in range(first[b], first[b + 1]):
            for j in range(len(mean)):
                mean[j] += x[i, j]
        mean /= np.float32(max(first[b + 1] - first[b], 1))
    return y


@compiled(reorder=True)
def products(places: Array, weights: Array) -> Array:
    """(m, 2 · offsets): each place of (m, offsets, d) times both weights of its row (m, 2 · d)."""
    count, offsets, d = places.shape
    y = np.empty((count, 2 * offsets), np.float32)
    for m in range(count):
        one, two = weights[m, :d], weights[m, d:]
        for o in range(offsets):
            place, first, second = places[m, o], np.float32(0), np.float32(0)
            for e in range(d):
                first += place[e] * one[e]
                second += place[e] * two[e]
            y[m, 2 * o], y[m, 2 * o + 1] = first, second
    return y


@compiled(reorder=True)
def attend_forward(qkv: Array, pairs: Array, weight: Array, first: Ints, first_pair: Ints, out: Array, shares: Array) -> None:
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
def attend_backward(
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
    """Adds to the gradients of what `attend_forward` was given, from that of its `out`."""
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
