"""The shown area, its scale, and outlines. All pictures for people share these, and use the rasteriser of `observations.image`."""

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
"""Factor from metres of the scene to metres in which the rasteriser draws. It is below 1, because a picture shows more than an
observation."""
SUPERSAMPLE = 3
"""Antialiasing: a pixel of a picture is the mean of a square of fine pixels, which has this many on each side."""
OUTLINE = 0.05
"""Width of the line around an object, in metres: two pixels of a picture of 640."""


def shown(points: Floats) -> Floats:
    """(N, 2): maps points (N, 2) of the scene, in metres, to the coordinates in which the rasteriser draws. The area `SHOWN` is mapped to
    the area `VIEW`."""
    return (points - [(SHOWN[0] + SHOWN[1]) / 2, SHOWN[2]]) * SCALE + [(VIEW[0] + VIEW[1]) / 2, VIEW[2]]


def ring(outer: Window, inner: Window) -> Window:
    """The part of the window `outer` that `inner` does not cover. The shape of `inner` must lie within the shape of `outer`."""
    cover = outer.cover.astype(np.float32)
    if inner.cover.size:
        cover[inner.top - outer.top : inner.bottom - outer.top, inner.left - outer.left : inner.right - outer.left] -= inner.cover
    return outer._replace(cover=cover)


def to_bytes(canvas: NDArray[np.float32]) -> Picture:
    """The picture of a canvas (height, width, 3) with colours in [0, 1]. The canvas is overwritten."""
    canvas *= 255
    canvas += 0.5
    return canvas.astype(np.uint8)
