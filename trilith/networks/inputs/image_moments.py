"""Moments of a segmented image: position, spread and colour of its pixels. Moments are fixed functions of the picture alone.

Moments are our addition, for the network `pixel-attention`. Building depends on the exact boundaries of objects, and a CNN with max pools
learns these boundaries slowly. The moments of first order (the centre) are a spatial soft-argmax (Finn et al. 2016) of the alpha channel;
we add moments of second order (the spread). The distances between two objects are inputs in the same two forms as in the network `objects`.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from trilith.networks.inputs.objects import MAX_WIDTH, SCALE, SHARP
from trilith.networks.inputs.scene_batch import Floats32 as Array
from trilith.utils.compiled import compiled
from trilith.world.observations.image import PIXELS
from trilith.world.scene import VIEW, Ints

MOMENT_COLUMNS = (
    *("area", "centre x", "centre y", "left", "right", "bottom", "top"),
    *("half width", "half height", "covariance of x and y", "red", "green", "blue"),
)
"""The feature columns of an object. x and y are measured from the centre of the picture. Colours are means from 0 to 1. Lengths and areas
have units that make values about 1: 4 m² for the area, 2 m for the centre and the four sides, 1 m for half width and half height, and 1/4
m² for the covariance of x and y. All columns are 0 for an object outside the picture."""
MOMENTS = len(MOMENT_COLUMNS)
RELATIONS = 16
"""Number of features of a pair of objects: eight distances, each in two forms. The distances are between the centres, between equal sides
(left to left) and between opposite sides (left to right)."""
_MINE, _OTHERS = [1, 2, 3, 4, 3, 4, 5, 6], [1, 2, 3, 4, 4, 3, 6, 5]
"""Two lists of indices of `MOMENT_COLUMNS`. Distance k is column `_MINE[k]` of the first object minus column `_OTHERS[k]` of the second,
times 2 m."""
_METRES = float(VIEW[1] - VIEW[0]) / PIXELS
"""Side of a pixel, in metres."""


def moments(boxes: Ints, first: Ints, pixels: Array) -> Array:
    """The moments (V, 13) of V objects, in the order of `MOMENT_COLUMNS`. The arguments are the windows of the objects, as
    `batch_images.windows` returns them."""
    found = np.zeros((len(boxes), MOMENTS), np.float32)
    _moments(boxes, first, pixels, found)
    return found


def relations(seen: Array, one: Ints, other: Ints) -> Array:
    """The features (p, 16) of p pairs of objects, computed from the moments `seen` (n, 13) of all objects. The first object of pair k is
    row `one[k]`, the second is row `other[k]`."""
    lengths = 2 * (seen[:, _MINE][one] - seen[:, _OTHERS][other])
    near = np.clip(lengths, -2 * MAX_WIDTH, 2 * MAX_WIDTH) / np.float32(SCALE)
    return np.concatenate([near, np.tanh(lengths * np.float32(SHARP))], axis=1)


@compiled
def _moments(boxes: Ints, first: Ints, pixels: Array, found: Array) -> None:
    for v in range(len(boxes)):
        top, bottom, left, right = boxes[v]
        at = first[v]
        area = x_sum = y_sum = xx = yy = xy = red = green = blue = 0.0
        for i in range(top, bottom):
            y = (PIXELS / 2 - i - 0.5) * _METRES
            for j in range(left, right):
                alpha = float(pixels[at, 3])
                if alpha > 0:
                    x = (j + 0.5 - PIXELS / 2) * _METRES
                    area += alpha
                    x_sum += alpha * x
                    y_sum += alpha * y
                    xx += alpha * x * x
                    yy += alpha * y * y
                    xy += alpha * x * y
                    red += pixels[at, 0]
                    green += pixels[at, 1]
                    blue += pixels[at, 2]
                at += 1
        if area > 0:
            x, y = x_sum / area, y_sum / area
            # A rectangle of width w has the variance w² / 12.
            wide, tall = sqrt(3 * max(xx / area - x * x, 0.0)), sqrt(3 * max(yy / area - y * y, 0.0))
            row = found[v]
            row[0] = area * _METRES * _METRES / 4
            row[1], row[2] = x / 2, y / 2
            row[3], row[4], row[5], row[6] = (x - wide) / 2, (x + wide) / 2, (y - tall) / 2, (y + tall) / 2
            row[7], row[8], row[9] = wide, tall, 4 * (xy / area - x * y)
            row[10], row[11], row[12] = red / area, green / area, blue / area
