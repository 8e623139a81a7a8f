"""Max pools of small windows that are added to a fixed feature map: compiled loops on the CPU, tensor operations on other devices.

Four operations are needed: crop a region of the map, add the window to it, pool the sum, and subtract the pool of the map alone. As tensor
operations, each would copy all windows; here one loop does all four.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from trilith.networks.inputs.scene_batch import Floats32 as Array
from trilith.utils.compiled import compiled
from trilith.world.scene import Ints

Choices = NDArray[np.int32]
Reach = tuple[int, int]
"""(before, after): how many rows, and how many columns, are added before and after a window, so that every output of the max pool that
depends on the window can be computed."""


def pool_added(grown: Tensor, convolved: Tensor, pooled: Tensor, top: Tensor, left: Tensor, reach: Reach) -> tuple[Tensor, Tensor, Tensor]:
    """Adds each of n windows separately to a fixed feature map. Computes the change of the map's 3 × 3 max pool with stride 2.

    The windows `grown` (n, C, h, w) are added to the map `convolved` (1, C, s, s) at the rows `top` (n,) and columns `left` (n,) of the
    map. Windows may extend beyond the border of the map. `top - reach[0]` and `left - reach[0]` must be even, see `Reach`. The pool of the
    map alone is `pooled` (1, C, s / 2, s / 2).

    Returns three tensors: for each window the change of `pooled` (n, C, h', w'), and the row (n,) and the column (n,) of `pooled` where
    this change begins. Beyond the border the change is 0.
    """
    pad, after = reach
    first, along = top - pad, left - pad  # both are even
    tall, wide = ((size + pad + after - 3) // 2 + 1 for size in grown.shape[2:])
    if grown.device.type == "cpu":
        added: Tensor = _PoolAdded.apply(grown, convolved, pooled, top, left, first, along, tall, wide)
    else:
        added = pool_added_plain(grown, convolved, pooled, first, along, tall, wide, reach)
    return added, first // 2, along // 2


def pool_added_plain(
    grown: Tensor, convolved: Tensor, pooled: Tensor, first: Tensor, along: Tensor, tall: int, wide: int, reach: Reach
) -> Tensor:
    """The first result of `pool_added`, the change of the pool, in tensor operations, for any device. `first` and `along` (n,) are the row
    and the column of the map where the extra rows and columns of each window begin. `tall` and `wide` are the height and width of the
    result. The other arguments are as in `pool_added`."""
    given = F.pad(grown, (*reach, *reach))
    whole = _cut(convolved, first, along, given.shape[2], given.shape[3], -torch.inf) + given
    fixed = _cut(pooled, first // 2, along // 2, tall, wide, -torch.inf)
    return torch.where(fixed == -torch.inf, 0.0, F.max_pool2d(whole, 3, stride=2) - fixed)


def _cut(fixed: Tensor, top: Tensor, left: Tensor, tall: int, wide: int, outside: float) -> Tensor:
    """Crops n regions (n, C, tall, wide) of the map `fixed` (1, C, s, s), starting at the rows `top` (n,) and columns `left` (n,). Values
    beyond the map are `outside`."""
    frame = max(tall, wide)
    framed = F.pad(fixed[0], (frame,) * 4, value=outside).permute(1, 2, 0)
    rows = top[:, None] + frame + torch.arange(tall, device=top.device)
    columns = left[:, None] + frame + torch.arange(wide, device=top.device)
    flat = rows[:, :, None] * framed.shape[1] + columns[:, None]
    return framed.flatten(0, 1).index_select(0, flat.flatten()).view(*flat.shape, -1).permute(0, 3, 1, 2)


def add_to_map(added: Tensor, pooled: Tensor, top: Tensor, left: Tensor) -> Tensor:
    """Returns n maps (n, C, s, s). Map i is `pooled` (1, C, s, s) plus the window `added[i]` (C, h, w) at row `top[i]` and column
    `left[i]`. Beyond the border of the map, a window must be 0."""
    if added.device.type == "cpu":
        whole: Tensor = _AddToMap.apply(added, pooled, top, left)
        return whole
    return add_to_map_plain(added, pooled, top, left)


def add_to_map_plain(added: Tensor, pooled: Tensor, top: Tensor, left: Tensor) -> Tensor:
    """`add_to_map` in tensor operations, for any device."""
    n, channels, h, w = added.shape
    side = pooled.shape[2]
    rows = (top[:, None] + torch.arange(h, device=top.device)).clamp(0, side - 1)
    columns = (left[:, None] + torch.arange(w, device=top.device)).clamp(0, side - 1)
    flat = (rows[:, :, None] * side + columns[:, None]).flatten(1)[:, None].expand(-1, channels, -1)
    parts = added.new_zeros(n, channels, side * side).scatter_add(2, flat, added.reshape(n, channels, -1))
    return pooled + parts.view(n, channels, side, side)


def _last(x: Tensor) -> Tensor:
    """Converts (n, C, h, w) to (n, h, w, C), contiguous in memory."""
    return x.detach().permute(0, 2, 3, 1).contiguous()


class _PoolAdded(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        grown: Tensor,
        convolved: Tensor,
        pooled: Tensor,
        top: Tensor,
        left: Tensor,
        first: Tensor,
        along: Tensor,
        tall: int,
        wide: int,
    ) -> Tensor:
        given, channels = _last(grown), grown.shape[1]
        added = grown.new_empty(len(grown), tall, wide, channels)
        choice = torch.empty(added.shape, dtype=torch.int32)
        places = [each.numpy() for each in (top, left, first, along)]
        maps = [_last(each)[0].numpy() for each in (convolved, pooled)]
        pool_forward(given.numpy(), *maps, *places, added.numpy(), choice.numpy())  # type: ignore[call-arg]
        ctx.save_for_backward(choice)
        ctx.places, ctx.sides, ctx.size = places, (convolved.shape[2], pooled.shape[2]), given.shape
        return added.permute(0, 3, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (choice,) = ctx.saved_tensors
        grad = _last(grads[0])
        side, half = ctx.sides
        back = grad.new_zeros(ctx.size), grad.new_zeros(side, side, ctx.size[3]), grad.new_zeros(half, half, ctx.size[3])
        pool_backward(grad.numpy(), choice.numpy(), *ctx.places, *(each.numpy() for each in back))
        of_grown, of_convolved, of_pooled = back
        parts = (of_grown.permute(0, 3, 1, 2), *(each.permute(2, 0, 1)[None] for each in (of_convolved, of_pooled)))
        return (*parts, *(None,) * 6)


class _AddToMap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, added: Tensor, pooled: Tensor, top: Tensor, left: Tensor) -> Tensor:
        parts, fixed = _last(added), _last(pooled)[0]
        out = fixed.repeat(len(parts), 1, 1, 1)  # `repeat` copies even a single map; `expand` would return the map itself
        ctx.places, ctx.size = (top.numpy(), left.numpy()), parts.shape
        add_parts(out.numpy(), parts.numpy(), *ctx.places, True)  # type: ignore[call-arg]
        return out.permute(0, 3, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad = _last(grads[0])
        parts = grad.new_zeros(ctx.size)
        add_parts(grad.numpy(), parts.numpy(), *ctx.places, False)  # type: ignore[call-arg]
        return parts.permute(0, 3, 1, 2), grad.sum(dim=0).permute(2, 0, 1)[None], None, None


@compiled
def pool_forward(
    grown: Array, convolved: Array, pooled: Array, top: Ints, left: Ints, first: Ints, along: Ints, added: Array, choice: Choices
) -> None:
    """Forward pass of `pool_added` for n windows. Channels are the last axis of all arrays. Fills `added` (n, tall, wide, C) with the
    change of the pool. Fills `choice`, of the same shape, with the index (0 to 8) of the maximum among the 3 × 3 inputs of each output.

    `first` and `along` (n,) are the row and the column of the map where the inputs of the pool begin.
    """
    n, tall, wide, channels = added.shape
    side, half = len(convolved), len(pooled)
    for w in range(n):
        for k in range(tall):
            t = first[w] // 2 + k
            for m in range(wide):
                u = along[w] // 2 + m
                best, which = added[w, k, m], choice[w, k, m]
                if t < 0 or t >= half or u < 0 or u >= half:
                    for c in range(channels):
                        best[c], which[c] = np.float32(0), np.int32(0)
                    continue
                for c in range(channels):
                    best[c], which[c] = np.float32(-np.inf), np.int32(0)
                for d in range(min(3, side - 2 * t)):
                    i = 2 * t + d - top[w]
                    for e in range(min(3, side - 2 * u)):
                        j = 2 * u + e - left[w]
                        fixed, place = convolved[2 * t + d, 2 * u + e], np.int32(3 * d + e)
                        if 0 <= i < grown.shape[1] and 0 <= j < grown.shape[2]:
                            more = grown[w, i, j]
                            for c in range(channels):
                                value = fixed[c] + more[c]
                                better = value > best[c]
                                best[c] = value if better else best[c]
                                which[c] = place if better else which[c]
                        else:
                            for c in range(channels):
                                better = fixed[c] > best[c]
                                best[c] = fixed[c] if better else best[c]
                                which[c] = place if better else which[c]
                fixed = pooled[t, u]
                for c in range(channels):
                    best[c] -= fixed[c]


@compiled
def pool_backward(
    grad: Array,
    choice: Choices,
    top: Ints,
    left: Ints,
    first: Ints,
    along: Ints,
    of_grown: Array,
    of_convolved: Array,
    of_pooled: Array,
) -> None:
    """Backward pass of `pool_forward`, whose arguments have the same names here. `grad` is the gradient with respect to `added`. Adds the
    gradients with respect to `grown`, `convolved` and `pooled` to `of_grown`, `of_convolved` and `of_pooled`."""
    n, tall, wide, channels = grad.shape
    half = len(of_pooled)
    for w in range(n):
        for k in range(tall):
            t = first[w] // 2 + k
            for m in range(wide):
                u = along[w] // 2 + m
                if t < 0 or t >= half or u < 0 or u >= half:
                    continue
                for c in range(channels):
                    by = grad[w, k, m, c]
                    row, column = 2 * t + choice[w, k, m, c] // 3, 2 * u + choice[w, k, m, c] % 3
                    of_pooled[t, u, c] -= by
                    of_convolved[row, column, c] += by
                    i, j = row - top[w], column - left[w]
                    if 0 <= i < of_grown.shape[1] and 0 <= j < of_grown.shape[2]:
                        of_grown[w, i, j, c] += by


@compiled
def add_parts(whole: Array, parts: Array, top: Ints, left: Ints, there: bool) -> None:
    """Adds n windows to maps, or regions of the maps to windows. Window i, `parts[i]` (h, w, C), belongs to the region of the map
    `whole[i]` (s, s, C) that begins at row `top[i]` and column `left[i]`. Parts beyond the border of the map are left out.

    If `there` is True, the windows are added to the regions. If `there` is False, the regions are added to the windows, which is the
    backward pass.
    """
    n, tall, wide, channels = parts.shape
    side = whole.shape[1]
    for w in range(n):
        for k in range(max(-top[w], 0), min(tall, side - top[w])):
            for m in range(max(-left[w], 0), min(wide, side - left[w])):
                one, other = whole[w, top[w] + k, left[w] + m], parts[w, k, m]
                for c in range(channels):
                    if there:
                        one[c] += other[c]
                    else:
                        other[c] += one[c]
