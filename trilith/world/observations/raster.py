"""Images of many scenes at once, and of their objects, in one compiled loop: to the bit those of `image` and `segments`.

Takes arrays as networks store states: everything but the available blocks, padded, and which slots are still available.
"""

from __future__ import annotations

from math import ceil, cos, floor, sin

import numpy as np
from numpy.typing import NDArray

from trilith.utils.compiled import compiled
from trilith.world.observations.image import (
    BACKGROUND,
    BLOCK_COLOUR,
    CONNECTING_COLOUR,
    FLOOR_COLOUR,
    GLUE_COLOUR,
    GLUE_RADIUS,
    OBSTACLE_COLOUR,
    PIXELS,
    RENDER_PIXELS,
    SILHOUETTE_COLOUR,
    STICKY_COLOUR,
    Float32,
)
from trilith.world.scene import BLOCK_HEIGHT, SLOT_WIDTHS, SLOT_X, SLOT_Y, SLOTS, VIEW, Bools, Ints, Role

_LEFT, _TOP, _SCALE = VIEW[0], VIEW[3], RENDER_PIXELS / (VIEW[1] - VIEW[0])
_WIDTHS = np.array(SLOT_WIDTHS)
_COLOURS = np.array(
    [
        FLOOR_COLOUR,
        OBSTACLE_COLOUR,
        BLOCK_COLOUR,
        STICKY_COLOUR,
        SILHOUETTE_COLOUR,
        CONNECTING_COLOUR,
        GLUE_COLOUR,
        (*BACKGROUND, 1.0),
    ],
    dtype=np.float32,
)
_FLOOR, _OBSTACLE, _BLOCK, _STICKY, _SILHOUETTE, _CONNECTING, _GLUE, _BACKGROUND = range(len(_COLOURS))
_OF_ROLE = np.zeros(len(Role), dtype=np.int64)
_OF_ROLE[[Role.FLOOR, Role.OBSTACLE, Role.BLOCK, Role.AVAILABLE, Role.TARGET]] = _FLOOR, _OBSTACLE, _BLOCK, _BLOCK, _SILHOUETTE
_IS_FLOOR, _IS_OBSTACLE, _IS_TARGET = int(Role.FLOOR), int(Role.OBSTACLE), int(Role.TARGET)


def images(
    available: Bools, count: Ints, pose: Float32, size: Float32, role: Ints, sticky: Float32, points: Float32, glued: Ints
) -> Float32:
    """(B, 64, 64, 3): red, green and blue of `image`, from what a batch holds of B scenes of up to R objects.

    `available` (B, 7), `count` (B,) objects, their `pose` (B, R, 3), `size` (B, R, 2), `role` (B, R) and `sticky` (B, R), and the
    first `glued` (B,) of `points` (B, P, 2). Objects that were taken from their slots come first, in order of the slots.
    """
    out = np.empty((len(count), PIXELS, PIXELS, 3), dtype=np.float32)
    _images(available, count, pose, size, role, sticky, points, glued, out)
    return out


TILE = 8
"""Windows of objects begin at multiples of this many pixels."""
LEAST = 2 * TILE
"""Their height and width is this, or twice, or four times as much, so that there are few sizes: most objects fit the least."""


def windows(
    available: Bools,
    count: Ints,
    pose: Float32,
    size: Float32,
    role: Ints,
    sticky: Float32,
    points: Float32,
    glued: Ints,
    tight: bool = False,
) -> tuple[Ints, Ints, Float32]:
    """What `segments` shows of each object in the window around it: outside, all but the coordinates is 0.

    Returns the boxes (V, 4) of V objects, top, bottom, left and right in pixels of 64, within the picture; where each begins in the
    pixels (V,); and the pixels (P, 4), red, green, blue and alpha, windows one after another, each row by row.
    Boxes begin at multiples of 8 and are 16, 32 or 64 high and wide; those that are `tight` fit the object, and that of one out of the
    picture is empty. Of each scene come the available blocks, then the other objects. The other arguments are those of `images`.
    """
    boxes = np.empty((int(available.sum() + count.sum()), 4), dtype=np.int64)
    _boxes(available, count, pose, size, tight, boxes)
    areas = (boxes[:, 1] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 2])
    first = np.cumsum(areas) - areas
    out = np.zeros((int(areas.sum()), 4), dtype=np.float32)
    _windows(available, count, pose, size, role, sticky, points, glued, boxes, first, out)
    return boxes, first, out


@compiled
def _boxes(available: Bools, count: Ints, pose: Float32, size: Float32, tight: bool, boxes: Ints) -> None:
    v = 0
    for b in range(len(count)):
        for slot in range(SLOTS):
            if available[b, slot]:
                _around(boxes[v], SLOT_X[slot], SLOT_Y, 0.0, _WIDTHS[slot], BLOCK_HEIGHT, tight)
                v += 1
        for k in range(count[b]):
            _around(boxes[v], pose[b, k, 0], pose[b, k, 1], pose[b, k, 2], size[b, k, 0], size[b, k, 1], tight)
            v += 1


@compiled
def _around(out: Ints, x: float, y: float, angle: float, w: float, h: float, tight: bool) -> None:
    """The window around a rectangle; one in the picture's corner if the rectangle is not in it."""
    c, s = abs(cos(float(angle))), abs(sin(float(angle)))
    top, bottom, left, right = box(float(x), float(y), (w * c + h * s) / 2, (w * s + h * c) / 2)
    if tight:
        if top == bottom or left == right:
            top, bottom, left, right = 0, 0, 0, 0
        out[0], out[1], out[2], out[3] = top // 2, (bottom + 1) // 2, left // 2, (right + 1) // 2
        return
    tile = TILE * RENDER_PIXELS // PIXELS
    if top == bottom or left == right:
        top, bottom, left, right = 0, 1, 0, 1
    for k, (first, last) in enumerate(((top, bottom), (left, right))):
        start, side = first // tile * TILE, LEAST
        while start + side < (last + 1) // 2:
            side *= 2
        out[2 * k] = min(start, PIXELS - side)
        out[2 * k + 1] = out[2 * k] + side


@compiled
def _windows(
    available: Bools,
    count: Ints,
    pose: Float32,
    size: Float32,
    role: Ints,
    sticky: Float32,
    points: Float32,
    glued: Ints,
    boxes: Ints,
    first: Ints,
    out: Float32,
) -> None:
    """Adds to `out` (P, 4), which is 0."""
    canvas = np.empty((RENDER_PIXELS, RENDER_PIXELS, 3), dtype=np.float32)
    v = 0
    for b in range(len(count)):
        draw_scene(canvas, available[b], count[b], pose[b], size[b], role[b], sticky[b], points[b], glued[b])
        for slot in range(SLOTS):
            if available[b, slot]:
                _window(canvas, boxes[v], out[first[v] :], SLOT_X[slot], SLOT_Y, 0.0, _WIDTHS[slot], BLOCK_HEIGHT)
                v += 1
        for k in range(count[b]):
            _window(canvas, boxes[v], out[first[v] :], pose[b, k, 0], pose[b, k, 1], pose[b, k, 2], size[b, k, 0], size[b, k, 1])
            v += 1


@compiled
def _window(canvas: Float32, tiles: Ints, out: Float32, x: float, y: float, angle: float, w: float, h: float) -> None:
    """Of one object: its mask, averaged over 2 × 2 pixels, then what one sees there times that."""
    x, y, w, h = float(x), float(y), float(w), float(h)
    c, s = cos(float(angle)), sin(float(angle))
    top, bottom, left, right = box(x, y, (w * abs(c) + h * abs(s)) / 2, (w * abs(s) + h * abs(c)) / 2)
    if top == bottom or left == right:
        return  # not in the picture, or between two rows of pixels; its window is elsewhere
    wide = tiles[3] - tiles[2]
    for i in range(top, bottom):
        dy = _TOP - (i + 0.5) / _SCALE - y
        at = (i // 2 - tiles[0]) * wide - tiles[2]
        for j in range(left, right):
            dx = _LEFT + (j + 0.5) / _SCALE - x
            if abs(dx * c + dy * s) <= w / 2 and abs(dy * c - dx * s) <= h / 2:
                out[at + j // 2, 3] += np.float32(0.25)
    for i in range(top // 2, (bottom + 1) // 2):
        at = (i - tiles[0]) * wide - tiles[2]
        for j in range(left // 2, (right + 1) // 2):
            alpha = out[at + j, 3]
            for k in range(3):
                pair = (canvas[2 * i, 2 * j, k] + canvas[2 * i + 1, 2 * j, k]) + (
                    canvas[2 * i, 2 * j + 1, k] + canvas[2 * i + 1, 2 * j + 1, k]
                )
                out[at + j, k] = pair * np.float32(0.25) * alpha


@compiled
def _images(
    available: Bools,
    count: Ints,
    pose: Float32,
    size: Float32,
    role: Ints,
    sticky: Float32,
    points: Float32,
    glued: Ints,
    out: Float32,
) -> None:
    """Fills `out` (B, 64, 64, 3)."""
    canvas = np.empty((RENDER_PIXELS, RENDER_PIXELS, 3), dtype=np.float32)
    for b in range(len(count)):
        draw_scene(canvas, available[b], count[b], pose[b], size[b], role[b], sticky[b], points[b], glued[b])
        for i in range(PIXELS):
            above, below, row = canvas[2 * i], canvas[2 * i + 1], out[b, i]
            for j in range(PIXELS):
                for k in range(3):
                    pair = (above[2 * j, k] + below[2 * j, k]) + (above[2 * j + 1, k] + below[2 * j + 1, k])
                    row[j, k] = pair * np.float32(0.25)


@compiled
def draw_scene(
    canvas: Float32,
    available: Bools,
    count: int,
    pose: Float32,
    size: Float32,
    role: Ints,
    sticky: Float32,
    points: Float32,
    glued: int,
) -> None:
    """Fills `canvas` (128, 128, 3) with the render of one scene: floor, obstacles, blocks, glue points, then targets over them."""
    flat = canvas.reshape(-1)
    flat[:] = np.float32(1)  # the background, which is white
    for k in range(count):
        if role[k] == _IS_FLOOR:
            _rectangle(canvas, _COLOURS[_FLOOR], pose[k, 0], pose[k, 1], pose[k, 2], size[k, 0], size[k, 1])
    for k in range(count):
        if role[k] == _IS_OBSTACLE:
            _rectangle(canvas, _COLOURS[_OBSTACLE], pose[k, 0], pose[k, 1], pose[k, 2], size[k, 0], size[k, 1])
    used = 0
    for slot in range(SLOTS):
        if available[slot]:
            _rectangle(canvas, _COLOURS[_BLOCK], SLOT_X[slot], SLOT_Y, 0.0, _WIDTHS[slot], BLOCK_HEIGHT)
        else:
            _block(canvas, pose[used], size[used], sticky[used])
            used += 1
    for k in range(used, count):
        if role[k] != _IS_FLOOR and role[k] != _IS_OBSTACLE and role[k] != _IS_TARGET:
            _block(canvas, pose[k], size[k], sticky[k])
    for k in range(glued):
        _disc(canvas, points[k, 0], points[k, 1])
    for k in range(count):
        if role[k] == _IS_TARGET:
            colour = _COLOURS[_SILHOUETTE if size[k, 1] > 0.75 * BLOCK_HEIGHT else _CONNECTING]
            _rectangle(canvas, colour, pose[k, 0], pose[k, 1], pose[k, 2], size[k, 0], size[k, 1])


@compiled
def _block(canvas: Float32, pose: Float32, size: Float32, sticky: float) -> None:
    _rectangle(canvas, _COLOURS[_STICKY if sticky else _BLOCK], pose[0], pose[1], pose[2], size[0], size[1])


@compiled
def box(x: float, y: float, across: float, up: float) -> tuple[int, int, int, int]:
    """Top, bottom, left and right (ends excluded) of the pixels of a render around a shape of half width and half height."""
    hair = 1e-9
    down, along = (_TOP - y) * _SCALE - 0.5, (x - _LEFT) * _SCALE - 0.5
    across, up = across * _SCALE + hair, up * _SCALE + hair
    top, bottom = min(max(ceil(down - up), 0), RENDER_PIXELS), min(max(floor(down + up) + 1, 0), RENDER_PIXELS)
    left, right = min(max(ceil(along - across), 0), RENDER_PIXELS), min(max(floor(along + across) + 1, 0), RENDER_PIXELS)
    return int(top), int(max(bottom, top)), int(left), int(max(right, left))


@compiled
def _rectangle(canvas: Float32, colour: NDArray[np.float32], x: float, y: float, angle: float, w: float, h: float) -> None:
    """Lays a rectangle of one colour (4,), the last its alpha, over a picture."""
    x, y, w, h = float(x), float(y), float(w), float(h)
    c, s = cos(float(angle)), sin(float(angle))
    red, green, blue, alpha = colour
    top, bottom, left, right = box(x, y, (w * abs(c) + h * abs(s)) / 2, (w * abs(s) + h * abs(c)) / 2)
    for i in range(top, bottom):
        dy = _TOP - (i + 0.5) / _SCALE - y
        line = canvas[i]
        for j in range(left, right):
            dx = _LEFT + (j + 0.5) / _SCALE - x
            if abs(dx * c + dy * s) <= w / 2 and abs(dy * c - dx * s) <= h / 2:
                if alpha == 1:
                    line[j, 0], line[j, 1], line[j, 2] = red, green, blue
                else:
                    line[j, 0] += alpha * (red - line[j, 0])
                    line[j, 1] += alpha * (green - line[j, 1])
                    line[j, 2] += alpha * (blue - line[j, 2])


@compiled
def _disc(canvas: Float32, x: float, y: float) -> None:
    """Marks a glue point."""
    x, y = float(x), float(y)
    top, bottom, left, right = box(x, y, GLUE_RADIUS, GLUE_RADIUS)
    for i in range(top, bottom):
        dy = _TOP - (i + 0.5) / _SCALE - y
        for j in range(left, right):
            dx = _LEFT + (j + 0.5) / _SCALE - x
            if dx * dx + dy * dy <= GLUE_RADIUS * GLUE_RADIUS:
                canvas[i, j] = _COLOURS[_GLUE, :3]
