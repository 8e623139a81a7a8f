"""Common parts of all pictures for people: the area that they show, its scale, and the outlines of objects. These pictures are drawn with
the rasteriser of `observations.image`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trilith.world.observations.image import Window
from trilith.world.scene import VIEW, Floats

Picture = NDArray[np.uint8]
"""(height, width, 3): red, green, blue, 0 to 255."""

SHOWN = (-9.5, 9.5, -3.0, 16.0)
"""The shown area in metres: left, right, bottom, top. It is wider than an observation, which cuts off a large block at x = 7.5."""
SCALE = (VIEW[1] - VIEW[0]) / (SHOWN[1] - SHOWN[0])
"""Factor by which scenes are scaled before the rasteriser draws them. It is below 1, because the rasteriser draws the area `VIEW`, and a
picture shows the larger area `SHOWN`."""
SUPERSAMPLE = 3
"""Antialiasing: a pixel of a picture is the mean of a square of fine pixels, which has this many on each side."""
OUTLINE = 0.05
"""Width of the line around an object, in metres: 1.7 pixels of a picture of 640."""


def shown(points: Floats) -> Floats:
    """Scales points (N, 2) of the scene, in metres, so that the area `SHOWN` becomes the area `VIEW`, which the rasteriser draws. Returns
    the scaled points (N, 2)."""
    return (points - [(SHOWN[0] + SHOWN[1]) / 2, SHOWN[2]]) * SCALE + [(VIEW[0] + VIEW[1]) / 2, VIEW[2]]


def ring(outer: Window, inner: Window) -> Window:
    """The window of the part of the shape in `outer` that the shape in `inner` does not cover. The shape in `inner` must lie within the
    other one."""
    cover = outer.cover.astype(np.float32)
    if inner.cover.size:
        cover[inner.top - outer.top : inner.bottom - outer.top, inner.left - outer.left : inner.right - outer.left] -= inner.cover
    return outer._replace(cover=cover)


def to_bytes(canvas: NDArray[np.float32]) -> Picture:
    """Converts a canvas (height, width, 3) with colours in [0, 1] to a picture. The canvas is overwritten."""
    canvas *= 255
    canvas += 0.5
    return canvas.astype(np.uint8)
