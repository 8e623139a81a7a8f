"""Position, spread and colour of the pixels of a segmented image: fixed functions of the pictures alone.

Our addition for the agent `pixels`. Building depends on where exactly an object ends, and a CNN with max pools is slow to learn this.
The first moments are a spatial soft-argmax (Finn et al. 2016) of the alpha channel; second moments are added. Distances between two
pictures come in the same two forms as distances between objects in the network `objects`.
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
"""Columns of an object and their units: area in 4 m²; centre and the four sides in 2 m; half width and half height in metres;
covariance of x and y in 1/4 m²; mean colour. Values are about 1. They are 0 for an object outside the picture."""
MOMENTS = len(MOMENT_COLUMNS)
RELATIONS = 16
"""Number of columns of a pair: distances in metres between the centres, between equal sides and between opposite sides, in two forms."""
_MINE, _OTHERS = [1, 2, 3, 4, 3, 4, 5, 6], [1, 2, 3, 4, 4, 3, 6, 5]
"""Columns of the moments between which distances are taken."""
_METRES = float(VIEW[1] - VIEW[0]) / PIXELS
"""Side of a pixel, in metres."""


def moments(boxes: Ints, first: Ints, pixels: Array) -> Array:
    """(V, 13): moments of the windows of V objects, in the format of `batch_images.windows`."""
    found = np.zeros((len(boxes), MOMENTS), np.float32)
    _moments(boxes, first, pixels, found)
    return found


def relations(seen: Array, one: Ints, other: Ints) -> Array:
    """(p, 16): relations of pairs of objects, from the moments (n, 13) of all objects. Pair k is row `one[k]`, which looks at row
    `other[k]`."""
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
