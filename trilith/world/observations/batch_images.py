"""Draws the images of many scenes, and of their objects, in one compiled loop. For equal poses the images equal those of `image` bit for
bit, and the windows those of `segments` to 1e-6.

The inputs are the padded arrays in which networks store states: all objects except the available blocks, and a mask of the slots whose
block is still available.
"""

from __future__ import annotations

from math import ceil, cos, floor, sin
from typing import NamedTuple

import numpy as np

from trilith.utils.compiled import compiled
from trilith.world.geometry.rectangles import contains
from trilith.world.observations.image import (
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
from trilith.world.scene import BLOCK_HEIGHT, SLOT_WIDTHS, SLOT_X, SLOT_Y, SLOTS, VIEW, Bools, Floats, Ints, Role

_LEFT, _TOP, _SCALE = VIEW[0], VIEW[3], RENDER_PIXELS / (VIEW[1] - VIEW[0])
_SLOT_POSE = np.array([(x, SLOT_Y, 0.0) for x in SLOT_X])
_SLOT_SIZE = np.array([(width, BLOCK_HEIGHT) for width in SLOT_WIDTHS])
_COLOURS = np.array(
    [FLOOR_COLOUR, OBSTACLE_COLOUR, BLOCK_COLOUR, STICKY_COLOUR, SILHOUETTE_COLOUR, CONNECTING_COLOUR, GLUE_COLOUR], dtype=np.float32
)
_FLOOR, _OBSTACLE, _BLOCK, _STICKY, _SILHOUETTE, _CONNECTING, _GLUE = range(len(_COLOURS))
TILE = 8
"""Pixels: the window around an object begins at a multiple of this."""
LEAST = 2 * TILE
"""Pixels: height and width of the window around an object are each 1, 2 or 4 times this. So there are only nine sizes, and most objects fit
the smallest."""


class Scenes(NamedTuple):
    """B scenes of up to R objects, as networks store them: padded arrays, without the available blocks.

    In a task with only seven blocks, the placed blocks come first in each scene, in order of the slots from which they were taken.
    """

    available: Bools
    """(B, 7): whether the block of each slot is still available."""
    objects: Ints
    """(B,): the number of objects in each scene, without the available blocks."""
    pose: Float32
    """(B, R, 3): x, y in metres and angle in radians."""
    size: Float32
    """(B, R, 2): width and height in metres."""
    role: Ints
    """(B, R): the `Role` of each object."""
    sticky: Float32
    """(B, R): 1 for sticky blocks, else 0."""
    points: Float32
    """(B, P, 2): x and y of up to P glue points in metres."""
    glued: Ints
    """(B,): the number of glue points in each scene."""


def images(
    available: Bools, count: Ints, pose: Float32, size: Float32, role: Ints, sticky: Float32, points: Float32, glued: Ints
) -> Float32:
    """Images (B, 64, 64, 3) of B scenes: the channels red, green and blue of the function `image`. The arguments are the fields of
    `Scenes`; `count` is its field `objects`."""
    out = np.empty((len(count), PIXELS, PIXELS, 3), dtype=np.float32)
    _images(Scenes(available, count, pose, size, role, sticky, points, glued), out)
    return out


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
    """Draws the images of the function `segments`, one for each object, but only a window of pixels around the object. Outside the window
    red, green, blue and alpha would be 0.

    Returns three arrays for the V objects of all scenes together:
    - (V, 4): the window of each object in a picture of 64 × 64 pixels, as top, bottom, left and right; bottom and right are exclusive.
    - (V,): for each window, the index of its first pixel in the next array.
    - (Q, 4): red, green, blue and alpha of the Q pixels of all windows, one window after another, each row by row.

    In each scene the available blocks come first, then the other objects. Windows begin at multiples of 8 and are 16, 32 or 64 pixels high
    and wide. With `tight`, each window is just large enough for its object, and empty if the object lies outside the picture. The other
    arguments are the fields of `Scenes`; `count` is its field `objects`.
    """
    scenes = Scenes(available, count, pose, size, role, sticky, points, glued)
    total = int(available.sum() + count.sum())
    poses, sizes = np.empty((total, 3)), np.empty((total, 2))
    _list_objects(scenes, poses, sizes)
    boxes = np.empty((len(poses), 4), dtype=np.int64)
    _boxes(poses, sizes, tight, boxes)
    areas = (boxes[:, 1] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 2])
    first = np.cumsum(areas) - areas
    out = np.zeros((int(areas.sum()), 4), dtype=np.float32)
    _windows(scenes, poses, sizes, boxes, first, out)
    return boxes, first, out


@compiled
def _list_objects(scenes: Scenes, poses: Floats, sizes: Floats) -> None:
    """Fills `poses` (V, 3) and `sizes` (V, 2) with the V objects of all scenes, scene by scene. In each scene the available blocks come
    first, then the other objects."""
    v = 0
    for b in range(len(scenes.objects)):
        for slot in range(SLOTS):
            if scenes.available[b, slot]:
                _copy_row(_SLOT_POSE[slot], poses[v])
                _copy_row(_SLOT_SIZE[slot], sizes[v])
                v += 1
        for k in range(scenes.objects[b]):
            _copy_row(scenes.pose[b, k], poses[v])
            _copy_row(scenes.size[b, k], sizes[v])
            v += 1


@compiled
def _copy_row(one: Floats, other: Floats) -> None:
    for i in range(len(one)):
        other[i] = one[i]


@compiled
def _boxes(pose: Floats, size: Floats, tight: bool, boxes: Ints) -> None:
    """Fills `boxes` (V, 4) with the windows around V rectangles, given by `pose` (V, 3) and `size` (V, 2). A window is top, bottom, left
    and right in a picture of 64 × 64 pixels. With `tight`, it is just large enough; else its bounds and sizes are as `windows` describes. A
    rectangle outside the picture gets a window in the corner of the picture or, with `tight`, an empty one."""
    tile = TILE * RENDER_PIXELS // PIXELS
    for v in range(len(pose)):
        top, bottom, left, right = _bounds(pose[v], size[v])
        hidden = top == bottom or left == right
        for k, (first, last) in enumerate(((top, bottom), (left, right))):
            if tight:
                boxes[v, 2 * k], boxes[v, 2 * k + 1] = (0, 0) if hidden else (first // 2, (last + 1) // 2)
                continue
            start, side = 0 if hidden else first // tile * TILE, LEAST
            while not hidden and start + side < (last + 1) // 2:
                side *= 2
            boxes[v, 2 * k] = min(start, PIXELS - side)
            boxes[v, 2 * k + 1] = boxes[v, 2 * k] + side


@compiled
def _windows(scenes: Scenes, pose: Floats, size: Floats, boxes: Ints, first: Ints, out: Float32) -> None:
    """Draws the windows of all V objects of `scenes` into `out` (Q, 4): red, green, blue and alpha of the Q pixels of all windows. `out`
    must be 0 at the start.

    `pose` (V, 3), `size` (V, 2) and `boxes` (V, 4) are the poses, sizes and windows of the objects. `first` (V,) is the index in `out` of
    the first pixel of each window.
    """
    canvas = np.empty((RENDER_PIXELS, RENDER_PIXELS, 3), dtype=np.float32)
    v = 0
    for b in range(len(scenes.objects)):
        _draw_scene(canvas, scenes, b)
        for _ in range(scenes.available[b].sum() + scenes.objects[b]):
            _window(canvas, boxes[v], out[first[v] :], pose[v], size[v])
            v += 1


@compiled
def _window(canvas: Float32, window: Ints, out: Float32, pose: Floats, size: Floats) -> None:
    """Draws the window of one object row by row into the first pixels of `out` (…, 4), which must be 0. Alpha is the mask of the object,
    averaged over 2 × 2 pixels. Red, green and blue are the visible colours times alpha.

    `canvas` (128, 128, 3) is the render of the scene. `window` (4,) is top, bottom, left and right in a picture of 64 × 64 pixels. `pose`
    (3,) and `size` (2,) are those of the object.
    """
    top, bottom, left, right = _bounds(pose, size)
    if top == bottom or left == right:
        return  # the object covers no pixel: it lies outside the picture, or between two rows of pixels
    x, y, c, s, w, h = _shape(pose, size)
    wide = window[3] - window[2]
    for i in range(top, bottom):
        dy = _TOP - (i + 0.5) / _SCALE - y
        at = (i // 2 - window[0]) * wide - window[2]
        for j in range(left, right):
            if contains(w, h, c, s, _LEFT + (j + 0.5) / _SCALE - x, dy):
                out[at + j // 2, 3] += np.float32(0.25)
    for i in range(top // 2, (bottom + 1) // 2):
        at = (i - window[0]) * wide - window[2]
        for j in range(left // 2, (right + 1) // 2):
            for k in range(3):
                out[at + j, k] = _mean(canvas[2 * i], canvas[2 * i + 1], j, k) * out[at + j, 3]


@compiled
def _images(scenes: Scenes, out: Float32) -> None:
    """Draws each scene into `out` (B, 64, 64, 3)."""
    canvas = np.empty((RENDER_PIXELS, RENDER_PIXELS, 3), dtype=np.float32)
    for b in range(len(out)):
        _draw_scene(canvas, scenes, b)
        for i in range(PIXELS):
            above, below, row = canvas[2 * i], canvas[2 * i + 1], out[b, i]
            for j in range(PIXELS):
                for k in range(3):
                    row[j, k] = _mean(above, below, j, k)


@compiled
def _mean(above: Float32, below: Float32, j: int, k: int) -> float:
    """One channel of one pixel of an image: the mean over 2 × 2 pixels of the render. `above` and `below` (128, 3) are two adjacent rows of
    the render, `j` is the column in the image, and `k` is the channel."""
    return ((above[2 * j, k] + below[2 * j, k]) + (above[2 * j + 1, k] + below[2 * j + 1, k])) * np.float32(0.25)


@compiled
def _draw_scene(canvas: Float32, scenes: Scenes, b: int) -> None:
    """Fills `canvas` (128, 128, 3) with the render of scene `b`: floor, obstacles, blocks, glue points, then targets over them."""
    available, pose, size, role, sticky = scenes.available[b], scenes.pose[b], scenes.size[b], scenes.role[b], scenes.sticky[b]
    count = scenes.objects[b]
    flat = canvas.reshape(-1)
    flat[:] = np.float32(1)  # the white background
    for kind, colour in ((Role.FLOOR, _FLOOR), (Role.OBSTACLE, _OBSTACLE)):
        for k in range(count):
            if role[k] == kind:
                _rectangle(canvas, _COLOURS[colour], pose[k], size[k])
    used = 0
    for slot in range(SLOTS):
        if available[slot]:
            _rectangle(canvas, _COLOURS[_BLOCK], _SLOT_POSE[slot], _SLOT_SIZE[slot])
        else:
            _rectangle(canvas, _COLOURS[_STICKY if sticky[used] else _BLOCK], pose[used], size[used])
            used += 1
    for k in range(used, count):
        if role[k] == Role.BLOCK:
            _rectangle(canvas, _COLOURS[_STICKY if sticky[k] else _BLOCK], pose[k], size[k])
    for k in range(scenes.glued[b]):
        _disc(canvas, float(scenes.points[b, k, 0]), float(scenes.points[b, k, 1]))
    for k in range(count):
        if role[k] == Role.TARGET:
            _rectangle(canvas, _COLOURS[_SILHOUETTE if size[k, 1] > 0.75 * BLOCK_HEIGHT else _CONNECTING], pose[k], size[k])


@compiled
def _shape(pose: Floats, size: Floats) -> tuple[float, float, float, float, float, float]:
    """Six numbers of a rectangle in double precision: x, y, cosine and sine of its angle, width, height."""
    angle = float(pose[2])
    return float(pose[0]), float(pose[1]), cos(angle), sin(angle), float(size[0]), float(size[1])


@compiled
def _bounds(pose: Floats, size: Floats) -> tuple[int, int, int, int]:
    """The bounding box of a rectangle in pixels of the render: top, bottom, left and right, where bottom and right are exclusive. `pose`
    (3,) and `size` (2,) are in metres."""
    x, y, c, s, w, h = _shape(pose, size)
    return box(x, y, (w * abs(c) + h * abs(s)) / 2, (w * abs(s) + h * abs(c)) / 2)


@compiled
def box(x: float, y: float, across: float, up: float) -> tuple[int, int, int, int]:
    """The bounding box of a shape in pixels of the render: top, bottom, left and right, where bottom and right are exclusive. The shape has
    its centre at (x, y); `across` and `up` are half its width and half its height, all in metres."""
    hair = 1e-9
    down, along = (_TOP - y) * _SCALE - 0.5, (x - _LEFT) * _SCALE - 0.5
    across, up = across * _SCALE + hair, up * _SCALE + hair
    top, bottom = min(max(ceil(down - up), 0), RENDER_PIXELS), min(max(floor(down + up) + 1, 0), RENDER_PIXELS)
    left, right = min(max(ceil(along - across), 0), RENDER_PIXELS), min(max(floor(along + across) + 1, 0), RENDER_PIXELS)
    return int(top), int(max(bottom, top)), int(left), int(max(right, left))


@compiled
def _rectangle(canvas: Float32, colour: Float32, pose: Floats, size: Floats) -> None:
    """Blends a rectangle over `canvas` (128, 128, 3), in place. `colour` (4,) is red, green, blue, alpha."""
    x, y, c, s, w, h = _shape(pose, size)
    top, bottom, left, right = _bounds(pose, size)
    alpha = colour[3]
    for i in range(top, bottom):
        dy = _TOP - (i + 0.5) / _SCALE - y
        line = canvas[i]
        for j in range(left, right):
            if contains(w, h, c, s, _LEFT + (j + 0.5) / _SCALE - x, dy):
                for k in range(3):
                    line[j, k] = colour[k] if alpha == 1 else line[j, k] + alpha * (colour[k] - line[j, k])


@compiled
def _disc(canvas: Float32, x: float, y: float) -> None:
    """Draws the disc of a glue point at (x, y), in metres, into `canvas` (128, 128, 3)."""
    top, bottom, left, right = box(x, y, GLUE_RADIUS, GLUE_RADIUS)
    for i in range(top, bottom):
        dy = _TOP - (i + 0.5) / _SCALE - y
        for j in range(left, right):
            dx = _LEFT + (j + 0.5) / _SCALE - x
            if dx * dx + dy * dy <= GLUE_RADIUS * GLUE_RADIUS:
                for k in range(3):
                    canvas[i, j, k] = _COLOURS[_GLUE, k]
