"""Compiled loops of the networks: the forward and backward pass of attention, and the forward passes of the other layers for acting without
torch.

The numbers of a row, or of a window of a picture, are always added in the same order. So not even the last bit of a sum depends on the
other rows of the batch, or on the number of threads.
"""

from __future__ import annotations

from math import exp, sqrt

import numpy as np

from trilith.networks.inputs.scene_batch import Floats32 as Array
from trilith.utils.compiled import compiled
from trilith.world.scene import Ints

_FEW = 32
"""With fewer outputs than this, `linear` computes each output by itself. A loop over so few outputs would not fill vector registers."""


@compiled(reorder=True)
def linear(x: Array, weight: Array, bias: Array, rectify: bool) -> Array:
    """A linear layer: returns x (n, inputs) · weight (inputs, outputs) + bias (outputs,), with the shape (n, outputs). With `rectify`,
    applies a ReLU to the result."""
    if weight.shape[1] < _FEW:
        return _linear_few(x, weight, bias, rectify)
    n, (inputs, outputs) = len(x), weight.shape
    y, sums = np.empty((n, outputs), np.float32), np.empty((4, outputs), np.float32)
    y0, y1, y2, y3 = sums[0], sums[1], sums[2], sums[3]
    # Four rows share each reading of the weights, and four inputs share each reading of the sums. Missing rows are copies of the last one.
    for start in range(0, n, 4):
        x0, x1, x2, x3 = x[start], x[min(start + 1, n - 1)], x[min(start + 2, n - 1)], x[min(start + 3, n - 1)]
        for j in range(outputs):
            y0[j] = y1[j] = y2[j] = y3[j] = bias[j]
        for k in range(0, inputs - 3, 4):
            a0, b0, c0, d0 = x0[k], x0[k + 1], x0[k + 2], x0[k + 3]
            a1, b1, c1, d1 = x1[k], x1[k + 1], x1[k + 2], x1[k + 3]
            a2, b2, c2, d2 = x2[k], x2[k + 1], x2[k + 2], x2[k + 3]
            a3, b3, c3, d3 = x3[k], x3[k + 1], x3[k + 2], x3[k + 3]
            of_a, of_b, of_c, of_d = weight[k], weight[k + 1], weight[k + 2], weight[k + 3]
            for j in range(outputs):
                a, b, c, d = of_a[j], of_b[j], of_c[j], of_d[j]
                y0[j] += a0 * a + b0 * b + c0 * c + d0 * d
                y1[j] += a1 * a + b1 * b + c1 * c + d1 * d
                y2[j] += a2 * a + b2 * b + c2 * c + d2 * d
                y3[j] += a3 * a + b3 * b + c3 * c + d3 * d
        for k in range(inputs - inputs % 4, inputs):
            a0, a1, a2, a3, of_a = x0[k], x1[k], x2[k], x3[k], weight[k]
            for j in range(outputs):
                y0[j] += a0 * of_a[j]
                y1[j] += a1 * of_a[j]
                y2[j] += a2 * of_a[j]
                y3[j] += a3 * of_a[j]
        for i in range(start, min(start + 4, n)):
            done, row = sums[i - start], y[i]
            for j in range(outputs):
                row[j] = max(done[j], np.float32(0)) if rectify else done[j]
    return y


@compiled(reorder=True)
def _linear_few(x: Array, weight: Array, bias: Array, rectify: bool) -> Array:
    """`linear` for fewer than `_FEW` outputs."""
    inputs, outputs = weight.shape
    y, columns = np.empty((len(x), outputs), np.float32), np.empty((outputs, inputs), np.float32)
    for k in range(inputs):
        for j in range(outputs):
            columns[j, k] = weight[k, j]
    for i in range(len(x)):
        given = x[i]
        for j in range(outputs):
            column, total = columns[j], np.float32(0)
            for k in range(inputs):
                total += given[k] * column[k]
            total += bias[j]
            y[i, j] = max(total, np.float32(0)) if rectify else total
    return y


@compiled(reorder=True)
def layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    """A layer norm: normalises each row of x (n, width) to mean 0 and variance 1, multiplies by weight (width,) and adds bias (width,)."""
    y, width = np.empty_like(x), np.float32(x.shape[1])
    for i in range(len(x)):
        row, mean, spread = x[i], np.float32(0), np.float32(0)
        for j in range(len(row)):
            mean += row[j]
        mean /= width
        for j in range(len(row)):
            spread += (row[j] - mean) ** 2
        scale = np.float32(1 / sqrt(spread / width + 1e-5))  # the epsilon of torch
        for j in range(len(row)):
            y[i, j] = (row[j] - mean) * scale * weight[j] + bias[j]
    return y


@compiled(reorder=True)
def mean_rows(x: Array, first: Ints) -> Array:
    """Means (B, width) of rows of x (n, width). Entry b is the mean of the rows from `first[b]` up to but not including `first[b + 1]`; 0
    if there are no such rows."""
    y = np.zeros((len(first) - 1, x.shape[1]), np.float32)
    for b in range(len(y)):
        mean = y[b]
        for i in range(first[b], first[b + 1]):
            for j in range(len(mean)):
                mean[j] += x[i, j]
        mean /= np.float32(max(first[b + 1] - first[b], 1))
    return y


@compiled(reorder=True)
def attention_forward(qkv: Array, pairs: Array, weight: Array, first: Ints, first_pair: Ints, out: Array, shares: Array) -> None:
    """Forward pass of `layers.attention.relational_attention`, whose arguments have the same names and shapes. Fills `out` (n, heads · (d +
    P)) with the result; `out` must be 0 at the start. Fills `shares` (p, heads) with the attention weight of each of the p pairs in each
    head."""
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
def attention_backward(
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
    """Backward pass of `attention_forward`, whose arguments have the same names here. `grad` is the gradient with respect to `out`. Adds
    the gradients with respect to `qkv`, `pairs` and `weight` to `qkv_grad`, `pairs_grad` and `weight_grad`."""
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


@compiled(reorder=True)
def link_pairs(y: Array, looks: Array, looked_at: Array, link: Array, touch: Array, glue: Array, first: Ints, first_pair: Ints) -> None:
    """Adds terms to `y` (p, P), the P features of each pair of objects in the same scene, in place, and applies a ReLU. Each pair gets the
    row of its first object in `looks` (n, P), and the row of its second object in `looked_at` (n, P). If the two objects touch, the pair
    also gets the first row of `link` (2, P), and if they are glued, the second row.

    `touch` and `glue` (B, R, R) say, as 0 or 1, which objects of each of B scenes touch and are glued. `first` and `first_pair` (B + 1,)
    are the first object and the first pair of each scene (see `SceneBatch`).
    """
    for b in range(len(first) - 1):
        start, count = first[b], first[b + 1] - first[b]
        for i in range(count):
            one = looks[start + i]
            for j in range(count):
                other, pair = looked_at[start + j], y[first_pair[b] + i * count + j]
                touching, glued = touch[b, i, j], glue[b, i, j]
                for e in range(len(pair)):
                    pair[e] = max(pair[e] + one[e] + other[e] + touching * link[0, e] + glued * link[1, e], np.float32(0))


@compiled
def _paste(whole: Array, part: Array, top: int, left: int) -> None:
    """Copies `part` (C, h, w) into the feature map `whole` (C, s, s), starting at row `top` and column `left`. The loops compile seconds
    faster than the assignment of a slice."""
    channels, tall, wide = part.shape
    for c in range(channels):
        for i in range(tall):
            for j in range(wide):
                whole[c, top + i, left + j] = part[c, i, j]


@compiled(reorder=True)
def convolve(part: Array, top: int, left: int, whole: Array, weight: Array, bias: Array) -> tuple[Array, int, int]:
    """Applies a 3 × 3 "same" convolution to a feature map of C channels and s × s positions, in which a rectangle is replaced by `part` (C,
    h, w). The map before the replacement is `whole` (C, s + 2, s + 2), with a border of zeros. `top` and `left` are the row and the column
    of `part` in the map without the border.

    Returns only the outputs that depend on `part`, and the row and the column where these outputs begin. `weight` is (O, C, 9) and `bias`
    is (O,), for O output channels. `whole` is not changed.
    """
    side, (channels, tall, wide) = whole.shape[1] - 2, part.shape
    first, last = max(top - 1, 0), min(top + tall + 1, side)
    along, end = max(left - 1, 0), min(left + wide + 1, side)
    seen = whole[:, first : last + 2, along : end + 2].copy()
    _paste(seen, part, top + 1 - first, left + 1 - along)
    # All rows are processed as one long row, so that loops are long. The last two results of each row are meaningless.
    w = end + 2 - along
    rows = seen.reshape(channels, -1)
    y = np.empty((len(weight), (last - first) * w), np.float32)
    for o in range(len(weight)):
        row = y[o]
        row[:] = bias[o]
        for c in range(channels):
            k, upper, middle, lower = weight[o, c], rows[c], rows[c, w:], rows[c, 2 * w :]
            k0, k1, k2, k3, k4, k5, k6, k7, k8 = k[0], k[1], k[2], k[3], k[4], k[5], k[6], k[7], k[8]
            for n in range(len(row) - 2):
                row[n] += (
                    (k0 * upper[n] + k1 * upper[n + 1] + k2 * upper[n + 2])
                    + (k3 * middle[n] + k4 * middle[n + 1] + k5 * middle[n + 2])
                    + (k6 * lower[n] + k7 * lower[n + 1] + k8 * lower[n + 2])
                )
    return y.reshape(-1, last - first, w)[:, :, : w - 2].copy(), first, along


@compiled(reorder=True)
def pool(part: Array, top: int, left: int, whole: Array) -> tuple[Array, int, int]:
    """Applies a 3 × 3 max pool with stride 2 to a feature map of C channels and s × s positions, in which a rectangle is replaced by `part`
    (C, h, w), at row `top` and column `left`. The map before the replacement is `whole` (C, s + 1, s + 1), whose last row and last column
    are padding of -inf.

    Returns only the outputs that depend on `part`, and the row and the column where these outputs begin. `whole` is not changed.
    """
    channels, tall, wide = part.shape
    first, last = max((top - 1) // 2, 0), (top + tall + 1) // 2
    along, end = max((left - 1) // 2, 0), (left + wide + 1) // 2
    seen = whole[:, 2 * first : 2 * last + 1, 2 * along : 2 * end + 1].copy()
    _paste(seen, part, top - 2 * first, left - 2 * along)
    y = np.empty((channels, last - first, end - along), np.float32)
    most = np.empty(seen.shape[2], np.float32)
    for c in range(channels):
        for i in range(last - first):
            for j in range(len(most)):
                most[j] = max(seen[c, 2 * i, j], seen[c, 2 * i + 1, j], seen[c, 2 * i + 2, j])
            for j in range(end - along):
                y[c, i, j] = max(most[2 * j], most[2 * j + 1], most[2 * j + 2])
    return y, first, along


Maps = tuple[Array, ...]
"""One array for each layer of a CNN."""


@compiled(reorder=True)
def convolve_windows(
    boxes: Ints, first: Ints, pixels: Array, which: Ints, weights: Maps, biases: Maps, inputs: Maps, convolved: Maps, last: Array
) -> Array:
    """Returns the feature maps (n, C, s, s) of n pictures after all convolutions and max pools of a CNN. Each picture is empty except for
    one window.

    `boxes`, `first` and `pixels` are windows, as `batch_images.windows` returns them. `which` (n,) selects n of these windows. `weights`
    and `biases` belong to the convolutions. The other arguments are the feature maps of an empty picture: `inputs` has the inputs of all
    convolutions, padded for `convolve`; `convolved` has their outputs, padded for `pool`; `last` (C, s, s) is the output of the last pool.
    """
    y = np.empty((len(which), *last.shape), np.float32)
    for n in range(len(which)):
        top, bottom, left, right = boxes[which[n]]
        part = inputs[0][:, top + 1 : bottom + 1, left + 1 : right + 1].copy()
        at = first[which[n]]
        for i in range(bottom - top):
            for j in range(right - left):
                for c in range(pixels.shape[1]):
                    part[c, i, j] = pixels[at, c]
                at += 1
        for k in range(len(weights)):
            part, top, left = convolve(part, top, left, inputs[k], weights[k], biases[k])
            part, top, left = pool(part, top, left, convolved[k])
        _paste(y[n], last, 0, 0)
        _paste(y[n], part, top, left)
    return y
