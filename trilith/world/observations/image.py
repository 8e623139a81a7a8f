"""The observation of a scene as an image, and the rasteriser that also draws the package's other pictures.

Pictures are square and show the region `scene.VIEW`. Row 0 is at the top. A pixel belongs to a shape if and only if the pixel's centre lies
inside the shape. Each shape is tested only within the window of pixels around it, which makes drawing fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trilith.world.geometry.rectangles import extents
from trilith.world.scene import BLOCK_HEIGHT, VIEW, Floats, Role, Scene

Float32 = NDArray[np.float32]

RENDER_PIXELS = 128
"""Height and width of the rendered picture and of the masks of objects, in pixels."""
PIXELS = 64
"""Height and width of a network's input image, in pixels. Each of its pixels is the mean of 2 × 2 rendered pixels."""
COLUMNS = ("red", "green", "blue", "x", "y")
CHANNELS = len(COLUMNS)

BACKGROUND = (1.0, 1.0, 1.0)
FLOOR_COLOUR = (0.0, 0.0, 0.0, 1.0)
OBSTACLE_COLOUR = (1.0, 0.0, 0.0, 1.0)
BLOCK_COLOUR = (0.0, 0.0, 1.0, 1.0)
STICKY_COLOUR = (0.0, 0.8, 1.0, 1.0)
SILHOUETTE_COLOUR = (0.0, 1.0, 0.0, 0.3)
CONNECTING_COLOUR = (0.0, 0.0, 1.0, 0.5)
GLUE_COLOUR = (0.5, 0.5, 0.5, 1.0)
GLUE_RADIUS = 0.14
"""Radius of the disc that marks a glue point, in metres. The disc covers about four pixels of the render, so that it stays visible after
averaging."""

_LAYER = np.zeros(len(Role), dtype=np.int64)
_LAYER[[Role.FLOOR, Role.OBSTACLE, Role.AVAILABLE, Role.BLOCK, Role.TARGET]] = (0, 1, 2, 2, 3)


class Window(NamedTuple):
    """The pixels around a shape: rows `top` to `bottom` and columns `left` to `right`, where `bottom` and `right` are exclusive."""

    top: int
    bottom: int
    left: int
    right: int
    cover: NDArray[np.bool_] | Float32
    """(bottom - top, right - left): for each pixel, whether it belongs to the shape, or the fraction of it that the shape covers."""


def render(scene: Scene, size: int = RENDER_PIXELS) -> Float32:
    """A picture of the scene in the paper's colours, as an array (size, size, 3). The last axis is red, green and blue, each from 0 to 1.
    There is no antialiasing."""
    return draw(scene, rectangles(scene.pose, scene.size, size), size)


def image(scene: Scene) -> Float32:
    """The image (64, 64, 5) of a scene. The first three channels are red, green and blue in [0, 1]: means of 2 × 2 pixels of the 128 × 128
    render. The last two are the coordinates x and y in [-1, 1].

    x increases to the right, y upwards. Both are linear in the position of the pixel's centre, and exactly -1 and 1 at the outermost
    pixels.
    """
    return np.concatenate([halve(render(scene)), COORDINATES], axis=-1)


def colours(scene: Scene) -> Float32:
    """Colours (N, 4) of the objects: red, green, blue, alpha. The targets of Silhouette and Connecting have different colours; the function
    tells them apart by their height."""
    table = np.array([BLOCK_COLOUR, BLOCK_COLOUR, SILHOUETTE_COLOUR, OBSTACLE_COLOUR, FLOOR_COLOUR], dtype=np.float32)[scene.role]
    table[scene.sticky] = STICKY_COLOUR
    table[(scene.role == Role.TARGET) & (scene.size[:, 1] <= 0.75 * BLOCK_HEIGHT)] = CONNECTING_COLOUR
    return table


def draw_order(scene: Scene) -> tuple[list[int], list[int]]:
    """Two lists of rows in drawing order: the objects to draw before the glue points (floor, obstacles, blocks), and the objects to draw
    after them (targets, which are transparent)."""
    layer = _LAYER[scene.role]
    order = np.argsort(layer, kind="stable")
    solid = int(np.count_nonzero(layer < _LAYER[Role.TARGET]))
    return order[:solid].tolist(), order[solid:].tolist()


def glue_points(scene: Scene) -> Floats:
    """Positions (G, 2) of the G glue points, in metres. Each is computed from the pose of the first of the two bonded objects."""
    x, y, angle = scene.pose[scene.glue[:, 0]].T
    u, v = scene.glue_frame[:, 0], scene.glue_frame[:, 1]
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([x + c * u - s * v, y + s * u + c * v], axis=1)


def rectangles(pose: Floats, size: Floats, pixels: int, align: int = 1) -> list[Window]:
    """The window of pixels around each of N rectangles, given by `pose` (N, 3) and `size` (N, 2), in a picture of `pixels` × `pixels`.

    The bounds of a window are multiples of `align`, so that the window can be averaged over squares of `align` × `align` pixels.
    """
    around = _around(pose[:, :2], extents(pose, size), pixels, align)
    cosines, sines = np.cos(pose[:, 2]).tolist(), np.sin(pose[:, 2]).tolist()
    windows = []
    for (top, bottom, left, right, dx, dy), (w, h), c, s in zip(around, size.tolist(), cosines, sines, strict=True):
        if s:
            inside = (np.abs(dx * c + dy * s) <= w / 2) & (np.abs(dy * c - dx * s) <= h / 2)
        else:  # an upright rectangle: the same result with half the work
            inside = (np.abs(dx) <= w / 2) & (np.abs(dy) <= h / 2)
        windows.append(Window(top, bottom, left, right, inside))
    return windows


def discs(centre: Floats, radius: float, pixels: int, align: int = 1) -> list[Window]:
    """The window of pixels around each of G discs, given by `centre` (G, 2) and `radius` in metres, in a picture of `pixels` × `pixels`.
    The bounds of a window are multiples of `align`."""
    around = _around(centre, np.full_like(centre, radius), pixels, align)
    return [Window(top, bottom, left, right, dx * dx + dy * dy <= radius * radius) for top, bottom, left, right, dx, dy in around]


def shrink(window: Window, factor: int) -> Window:
    """The same window in a picture with `factor` times fewer pixels per side. Its `cover` is the fraction of each new pixel that the shape
    covers. The `cover` of `window` must be boolean, and its bounds multiples of `factor`."""
    top, bottom, left, right, cover = window
    top, bottom, left, right = top // factor, bottom // factor, left // factor, right // factor
    # Adding whole slices is several times faster than numpy's sum over axes this short.
    mask = cover.view(np.uint8)
    rows = sum((mask[i::factor] for i in range(1, factor)), start=mask[::factor])
    counts = sum((rows[:, i::factor] for i in range(1, factor)), start=rows[:, ::factor])
    return Window(top, bottom, left, right, counts * np.float32(1 / factor**2))


def blend(canvas: Float32, window: Window, colour: Float32) -> None:
    """Blends the shape of `window` over a picture `canvas` (P, P, 3), in place. `colour` (4,) is red, green, blue, alpha."""
    top, bottom, left, right, cover = window
    part = canvas[top:bottom, left:right]
    part += (cover * colour[3])[..., None] * (colour[:3] - part)


def halve(picture: Float32) -> Float32:
    """Halves the size of a picture: returns (P/2, P/2, 3), the means over 2 × 2 pixels of `picture` (P, P, 3)."""
    rows = picture[::2] + picture[1::2]
    return (rows[:, ::2] + rows[:, 1::2]) * np.float32(0.25)


def draw(scene: Scene, windows: Sequence[Window], pixels: int) -> Float32:
    """A picture (pixels, pixels, 3) of a scene: red, green and blue in [0, 1]. `windows` has the window of each object of the scene, in row
    order, as `rectangles` returns it."""
    table = colours(scene)
    below, above = draw_order(scene)
    # Opaque shapes are drawn by their colour's index, which is many times faster than blending.
    palette = np.concatenate([table[:, :3], np.array([GLUE_COLOUR[:3], BACKGROUND], dtype=np.float32)])
    drawn = np.full((pixels, pixels), len(palette) - 1)
    shapes = [(row, windows[row]) for row in below]
    shapes += [(len(scene), disc) for disc in discs(glue_points(scene), GLUE_RADIUS, pixels)]
    for colour, (top, bottom, left, right, inside) in shapes:
        drawn[top:bottom, left:right][inside] = colour
    canvas: Float32 = palette.take(drawn, axis=0)
    for row in above:
        blend(canvas, windows[row], table[row])
    return canvas


def _around(centre: Floats, half: Floats, pixels: int, align: int) -> Iterator[tuple[int, int, int, int, Floats, Floats]]:
    """Yields the window of pixels around each of N shapes, in a picture of `pixels` × `pixels`. `centre` (N, 2) is the centre of each
    shape, and `half` (N, 2) is half its width and half its height, in metres. The bounds of a window are multiples of `align`.

    A window is yielded as six values: top, bottom, left and right, where bottom and right are exclusive; then x (columns,) and y (rows, 1)
    of the centres of its pixels, in metres, relative to the centre of the shape. The caller tests which pixels are inside the shape.
    """
    west, east, south, north = VIEW
    share = (np.arange(pixels) + 0.5) / pixels
    xs, ys = west + (east - west) * share, north - (north - south) * share
    hair = 1e-9
    scale = pixels / (east - west)
    down = (north - centre[:, 1]) * scale - 0.5
    along = (centre[:, 0] - west) * scale - 0.5
    middle, reach = np.stack([down, along]), half.T[::-1] * scale + hair
    first = np.clip(np.ceil(middle - reach), 0, pixels).astype(np.int64)
    last = np.clip(np.floor(middle + reach) + 1, 0, pixels).astype(np.int64)
    first -= first % align
    last += -last % align
    np.maximum(last, first, out=last)
    for (top, left), (bottom, right), (x, y) in zip(first.T.tolist(), last.T.tolist(), centre.tolist(), strict=True):
        yield top, bottom, left, right, xs[left:right] - x, ys[top:bottom, None] - y


_LINE = np.linspace(-1, 1, PIXELS, dtype=np.float32)
COORDINATES: Float32 = np.stack(np.meshgrid(_LINE, _LINE[::-1]), axis=-1)
"""(64, 64, 2): the coordinates x, which increases to the right, and y, which increases upwards, from -1 to 1."""
COORDINATES.flags.writeable = False
