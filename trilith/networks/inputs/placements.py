"""Input columns of a placement, and the first layer over all pairs of a placement and an object.

This layer is the most expensive part of the network `objects`. Which placements are legal is decided in `world.actions`.

A placement is a block before it falls. The inputs of a placement and an object are differences of their coordinates, each clipped:

| columns | what | unit | clipped to |
|---|---|---|---|
| 0 to 9 | the ten `LENGTHS` | 4 m | ±3.5 |
| 10 to 19 | `LENGTHS` | 1/3 m | ±1 |
| 20 to 29 | `LENGTHS` | 1/15 m | ±1 |
| 30 to 39 | `LENGTHS` | 1/75 m | ±1 |

Each input depends on one object only. How to combine objects is learned by the network.

On the CPU, compiled loops process sixteen placements at a time, which uses SIMD. On other devices
`look_plain` computes the same function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trilith.networks.inputs.scene_batch import Floats32 as Array
from trilith.networks.inputs.scene_batch import ReplaySchema, SceneBatch
from trilith.utils.compiled import compiled
from trilith.world.actions import height_on, offset
from trilith.world.scene import BLOCK_HEIGHT, PLACE_X, PLACE_Y, Ints, Role

if TYPE_CHECKING:
    from torch import Tensor

LENGTHS = (
    "centre x less centre x",
    "centre y less centre y",
    "left edge less left edge",
    "right edge less right edge",
    "left edge less right edge",
    "right edge less left edge",
    "centre x less left edge",
    "centre x less right edge",
    "bottom less top",
    "top less bottom",
)
"""The ten lengths: a coordinate of the placement minus a coordinate of the object's bounding box, in metres."""
SCALES = (0.25, 3.0, 15.0, 75.0)
"""Factors by which lengths are multiplied before clipping. With the smallest factor, lengths up to 14 m stay within the limit; the largest
factors resolve whether two objects touch."""
CLIPS = (3.5, 1.0, 1.0, 1.0)
"""Limit of the clipping for each scale."""
COLUMNS = len(LENGTHS) * len(SCALES)
"""Number of input columns for a pair (placement, object)."""
FIGURES = 3
"""Number of predictions for a placement: the return after it, its reward, and whether it ends the episode. Each is made twice, without and
with glue."""
SUM_SCALE = 1 / 8
"""Factor by which sums over objects are multiplied, so that they are about 1."""
_LANES = 16
_LENGTHS = len(LENGTHS)
_SCALES: tuple[Any, ...] = tuple(np.float32(scale) for scale in SCALES)
_CLIPS: tuple[Any, ...] = tuple(np.float32(clip) for clip in CLIPS)
_HALF = np.float32(BLOCK_HEIGHT / 2)
_SUM = np.float32(SUM_SCALE)


class Placements(NamedTuple):
    """m blocks before they fall, as arrays or tensors. `x` and `y` (m,) are the coordinates of their centres in metres."""

    x: Any
    y: Any
    half: Any
    """(m,): half the width of each block, in metres."""


def check_offsets(schema: ReplaySchema) -> None:
    """Raises ValueError if actions have offsets along y too. The error message names the alternatives."""
    if len(schema.codec.tail) > 1:
        raise ValueError("the network objects values offsets along x only: choose actions relative, or network graph")


def locate(scenes: Any, offsets: int, widths: Any, scene: Any, kind: Any, reference: Any, which: Any) -> Placements:
    """The placements of m actions. Action i places a block of the kind `kind[i]` relative to the object `reference[i]` of the scene
    `scene[i]`; `which[i]` is the number of its offset. `widths` (3,) has the width of each kind in metres, and `offsets` is the number of
    offsets.

    If `scenes` is a `SceneBatch`, the other arguments are arrays. If `scenes` is the `tensors` of a `SceneBatch`, they are tensors. `which`
    and the results are float32.
    """
    width, pose, size = widths[kind], scenes.pose[scene, reference], scenes.size[scene, reference]
    target = (scenes.role[scene, reference] == int(Role.TARGET)) * 1
    x = (pose[:, 0] + offset(which, offsets, size[:, 0], width)).clip(*PLACE_X)
    return Placements(x, height_on(target, pose[:, 1], size[:, 1]).clip(*PLACE_Y), width / 2)


def boxes(scenes: SceneBatch) -> Array:
    """Coordinates (n, 6) of all n objects in metres, one scene after another: x and y of the centre, then left, right, bottom and top of
    the bounding box."""
    (x, y, angle), (w, h) = scenes.pose[scenes.present].T, scenes.size[scenes.present].T
    cos, sin = np.abs(np.cos(angle)), np.abs(np.sin(angle))
    across, up = (w * cos + h * sin) / 2, (w * sin + h * cos) / 2
    return np.stack([x, y, x - across, x + across, y - up, y + up], axis=1)


def look_plain(placed: Placements, rows: Tensor, box: Tensor, objects: Tensor, weight: Tensor) -> Tensor:
    """Returns the result (m, 2P) of `look_forward` for m placements, computed by tensor operations on any device. `box`, `objects` and
    `weight` are as in `look_forward`. `rows` (m, R) has, for each placement, the rows of `box` and `objects` that belong to its scene,
    padded with -1."""
    import torch
    from torch.nn import functional as F

    x, y, half = (each[:, None] for each in placed)
    ox, oy, left, right, bottom, top = box[rows.clamp(min=0)].unbind(-1)
    ends = [(x, ox), (y, oy), (x - half, left), (x + half, right), (x - half, right), (x + half, left), (x, left), (x, right)]
    ends += [(y - BLOCK_HEIGHT / 2, top), (y + BLOCK_HEIGHT / 2, bottom)]
    lengths = torch.stack([mine - other for mine, other in ends], dim=-1)
    seen = torch.cat([(lengths * scale).clamp(-clip, clip) for scale, clip in zip(SCALES, CLIPS, strict=True)], dim=-1)
    messages = F.relu(seen @ weight.t() + objects[rows.clamp(min=0)]) * (rows >= 0)[..., None]
    return torch.cat([messages.sum(dim=1) * SUM_SCALE, messages.amax(dim=1)], dim=-1)


@compiled(reorder=True)
def _see(placed: Array, box: Array, lengths: Array, seen: Array) -> None:
    """Fills `seen` (40 · 16) with the 40 input columns for one object and each of sixteen placements, column by column. `placed` (3, 16)
    has x, y and half the width of each placement, `box` (6,) the coordinates of the object. `lengths` (10 · 16) is working memory."""
    x, y, half = placed[0], placed[1], placed[2]
    ox, oy, left, right, bottom, top = box[0], box[1], box[2], box[3], box[4] - _HALF, box[5] + _HALF
    for i in range(_LANES):
        at_left, at_right = x[i] - half[i], x[i] + half[i]
        lengths[i], lengths[_LANES + i] = x[i] - ox, y[i] - oy
        lengths[2 * _LANES + i], lengths[3 * _LANES + i] = at_left - left, at_right - right
        lengths[4 * _LANES + i], lengths[5 * _LANES + i] = at_left - right, at_right - left
        lengths[6 * _LANES + i], lengths[7 * _LANES + i] = x[i] - left, x[i] - right
        lengths[8 * _LANES + i], lengths[9 * _LANES + i] = y[i] - top, y[i] - bottom
    _clip(lengths, _SCALES[0], _CLIPS[0], seen, 0)
    _clip(lengths, _SCALES[1], _CLIPS[1], seen, _LENGTHS * _LANES)
    _clip(lengths, _SCALES[2], _CLIPS[2], seen, 2 * _LENGTHS * _LANES)
    _clip(lengths, _SCALES[3], _CLIPS[3], seen, 3 * _LENGTHS * _LANES)


@compiled(reorder=True)
def _clip(lengths: Array, scale: float, clip: float, seen: Array, first: int) -> None:
    for i in range(_LENGTHS * _LANES):
        seen[first + i] = min(max(lengths[i] * scale, -clip), clip)


@compiled(reorder=True)
def _sixteen(x: Array, y: Array, half: Array, first: int, end: int, placed: Array) -> None:
    """Copies the placements from `first` up to but not including `end`, at most sixteen, to `placed` (3, 16). Fills the rest with copies of
    the last placement, whose results are not used."""
    for i in range(_LANES):
        k = min(first + i, end - 1)
        placed[0, i], placed[1, i], placed[2, i] = x[k], y[k], half[k]


@compiled(reorder=True)
def look_forward(
    first: Ints, x: Array, y: Array, half: Array, first_object: Ints, box: Array, objects: Array, weight: Array, out: Array
) -> None:
    """Fills `out` (m, 2P) with pooled messages. Each of m placements gets a message of P numbers from every object of its scene. The first
    P numbers of a row of `out` are the sum of the placement's messages, times SUM_SCALE; the other P are their maximum.

    A message is the ReLU of a sum of two parts. The first part is `weight` (P, 40) times the 40 input columns of the pair (placement,
    object). The second part is the object's row of `objects` (n, P).

    `x`, `y` and `half` (m,) are the fields of `Placements`. `box` (n, 6) is the result of `boxes`. Scene b has the placements from
    `first[b]` up to but not including `first[b + 1]`, and likewise the objects from `first_object[b]` to `first_object[b + 1]`.
    """
    units = len(weight)
    lengths, seen = np.empty(_LENGTHS * _LANES, np.float32), np.empty(COLUMNS * _LANES, np.float32)
    sums, most = np.empty((units, _LANES), np.float32), np.empty((units, _LANES), np.float32)
    placed = np.empty((3, _LANES), np.float32)
    for b in range(len(first) - 1):
        for begin in range(first[b], first[b + 1], _LANES):
            end = min(begin + _LANES, first[b + 1])
            _sixteen(x, y, half, begin, end, placed)
            sums[:], most[:] = 0, 0
            for j in range(first_object[b], first_object[b + 1]):
                _see(placed, box[j], lengths, seen)
                for p in range(units):
                    own, base, total, high = weight[p], objects[j, p], sums[p], most[p]
                    for i in range(_LANES):
                        message = base
                        for k in range(COLUMNS):
                            message += own[k] * seen[k * _LANES + i]
                        message = max(message, np.float32(0))
                        total[i] += message
                        high[i] = max(high[i], message)
            for i in range(end - begin):
                for p in range(units):
                    out[begin + i, p], out[begin + i, units + p] = sums[p, i] * _SUM, most[p, i]


@compiled(reorder=True)
def look_backward(
    grad: Array,
    first: Ints,
    x: Array,
    y: Array,
    half: Array,
    first_object: Ints,
    box: Array,
    objects: Array,
    weight: Array,
    objects_grad: Array,
    message_grad: Array,
    columns: Array,
) -> None:
    """Backward pass of `look_forward`, whose arguments have the same names here. `grad` (m, 2P) is the gradient with respect to `out`.
    Messages are computed again here, because the forward pass does not store them.

    Adds the gradient with respect to `objects` to `objects_grad`. Fills `message_grad` (P, w) with the gradient with respect to each
    message before its ReLU. Fills `columns` (40, w) with the input columns of each pair (placement, object). The function `backward_width`
    returns w. The gradient of a maximum goes to the first object that attains it.

    The caller computes the gradient with respect to `weight` as the product `message_grad` · `columns`ᵀ. One product of large matrices is
    several times as fast as a sum in these loops.
    """
    units, largest = len(weight), 0
    for b in range(len(first) - 1):
        largest = max(largest, first_object[b + 1] - first_object[b])
    lengths, seen = np.empty(_LENGTHS * _LANES, np.float32), np.empty(COLUMNS * _LANES, np.float32)
    messages, most = np.empty((largest, units, _LANES), np.float32), np.empty((units, _LANES), np.float32)
    of_sum, of_most = np.empty(_LANES, np.float32), np.empty(_LANES, np.float32)
    placed = np.empty((3, _LANES), np.float32)
    done = 0
    for b in range(len(first) - 1):
        start, count = first_object[b], first_object[b + 1] - first_object[b]
        for begin in range(first[b], first[b + 1], _LANES):
            end = min(begin + _LANES, first[b + 1])
            _sixteen(x, y, half, begin, end, placed)
            most[:] = 0
            for j in range(count):
                _see(placed, box[start + j], lengths, seen)
                for k in range(COLUMNS):
                    column = columns[k, done + j * _LANES : done + (j + 1) * _LANES]
                    for i in range(_LANES):
                        column[i] = seen[k * _LANES + i]
                for p in range(units):
                    own, base, message, high = weight[p], objects[start + j, p], messages[j, p], most[p]
                    for i in range(_LANES):
                        total = base
                        for k in range(COLUMNS):
                            total += own[k] * seen[k * _LANES + i]
                        message[i] = total
                        high[i] = max(high[i], total)
            for p in range(units):
                of_sum[:], of_most[:] = 0, 0  # stays 0 for copies that only pad
                for i in range(end - begin):
                    of_sum[i], of_most[i] = grad[begin + i, p] * _SUM, grad[begin + i, units + p]
                high = most[p]
                for j in range(count):
                    message, into = messages[j, p], message_grad[p, done + j * _LANES : done + (j + 1) * _LANES]
                    whole = np.float32(0)
                    for i in range(_LANES):
                        of_this = of_most[i] if message[i] == high[i] else np.float32(0)
                        of_most[i] -= of_this
                        into[i] = of_sum[i] + of_this if message[i] > 0 else np.float32(0)
                        whole += into[i]
                    objects_grad[start + j, p] += whole
            done += count * _LANES


def backward_width(first: Ints, first_object: Ints) -> int:
    """The width w of the arrays that `look_backward` fills: the number of pairs (placement, object), after the placements of each scene are
    padded to a multiple of sixteen. The arguments are as in `look_forward`."""
    return int((-(-np.diff(first) // _LANES) * np.diff(first_object)).sum()) * _LANES
