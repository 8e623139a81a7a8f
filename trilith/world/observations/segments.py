"""The observation of a scene as one image per object."""

from __future__ import annotations

import numpy as np

from trilith.world.observations.image import COORDINATES, PIXELS, RENDER_PIXELS, Float32, draw, halve, rectangles, shrink
from trilith.world.scene import Scene

COLUMNS = ("red", "green", "blue", "alpha", "x", "y")
CHANNELS = len(COLUMNS)
_EMPTY = np.concatenate([np.zeros((PIXELS, PIXELS, 4), dtype=np.float32), COORDINATES], axis=-1)


def segments(scene: Scene) -> Float32:
    """Images (N, 64, 64, 6), one for each of the N objects of a scene, in row order. The channels are red, green, blue, alpha, x, y.

    Alpha is the object's 128 × 128 mask, averaged over 2 × 2 pixels. Masks of different objects may overlap, so an object hidden by another
    still has its whole mask. Red, green and blue are those of the function `image` times alpha, so they show the visible colours. x and y
    equal those of `image` at every pixel, also outside the object.
    """
    factor = RENDER_PIXELS // PIXELS
    windows = rectangles(scene.pose, scene.size, RENDER_PIXELS, align=factor)
    seen = np.concatenate([halve(draw(scene, windows, RENDER_PIXELS)), np.ones((PIXELS, PIXELS, 1), dtype=np.float32)], axis=-1)
    out = np.repeat(_EMPTY[None], len(scene), axis=0)
    for row, window in enumerate(windows):
        top, bottom, left, right, alpha = shrink(window, factor)
        out[row, top:bottom, left:right, :4] = seen[top:bottom, left:right] * alpha[..., None]
    return out
