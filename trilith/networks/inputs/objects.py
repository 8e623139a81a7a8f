"""The inputs of the network `objects`: feature columns of an object, of a pair of objects, and of the number of steps left.

If a column changes, older weights cannot be loaded any more, because `agents/schema.py` compares the lists of columns.

Typical values of a column are about 1. Lengths are in metres; x and y are the coordinates of the centre.

| object, 19 columns | value |
|---|---|
| x, y | x / 7, y / 4 |
| cos, sin | cos θ - 1, sin θ |
| width, height | min(w, 7) / 4, h |
| left, right | (x ∓ min(w, 7) / 2) / 7 |
| sticky | 0 or 1 |
| speed | min(vx² + vy², 1), in m²/s² |
| spin | clipped to ±1, in rad/s |
| one column for each role | 0 or 1 |
| small, medium, large left | available blocks of that width / 3 |

| pair of objects, 18 columns | value |
|---|---|
| the eight `PAIR_LENGTHS` | clipped to ±14, divided by 4 |
| `PAIR_LENGTHS` | tanh(4 · length), which separates touching from nearly touching |
| touching, glued | 0 or 1 |

| steps left n, clipped to 1..21, 3 columns | n / 10, tanh(n / 4), 1 / n |
"""

from __future__ import annotations

from math import cos, sin

import numpy as np

from trilith.networks.inputs.scene_batch import KINDS, SceneBatch
from trilith.networks.inputs.scene_batch import Floats32 as Array
from trilith.utils.compiled import compiled
from trilith.world.scene import Ints, Role

SCALE = 4.0
"""Metres: y, width and the lengths of a pair are divided by this, so that columns are about 1."""
SHARP = 4.0
"""Lengths between two objects are also inputs as tanh(4 · length), which separates touching from nearly touching."""
MAX_WIDTH = 7.0
"""Metres: wider objects get this width in the inputs, but not in `PAIR_LENGTHS`. Only the floor is wider (28 m), and its width would be far
larger than all other inputs."""
PAIR_LENGTHS = (
    "centre x less centre x",
    "centre y less centre y",
    "left less left",
    "right less right",
    "left less right",
    "right less left",
    "bottom less top",
    "top less bottom",
)
"""The eight lengths of a pair of objects, in metres: a coordinate of the first object's bounding box minus a coordinate of the second
object's bounding box."""
OBJECT_COLUMNS = (
    *("x", "y", "cos - 1", "sin", "width", "height", "left", "right", "sticky", "speed squared", "spin"),
    *(role.name.lower() for role in Role),
    *("small left", "medium left", "large left"),
)
PAIR_COLUMNS = (*PAIR_LENGTHS, *(f"tanh of {name}" for name in PAIR_LENGTHS), "touching", "glued")
CLOCK_COLUMNS = ("steps left / 10", "tanh of steps left / 4", "1 / steps left")
_LENGTHS, _ROLES = len(PAIR_LENGTHS), len(Role)
NODE_FEATURES, PAIR_FEATURES, CLOCK_FEATURES = len(OBJECT_COLUMNS), len(PAIR_COLUMNS), len(CLOCK_COLUMNS)
_ROLE = NODE_FEATURES - _ROLES - KINDS
MOST_STEPS = 21
"""The number of steps left is clipped to this."""


def describe(scenes: SceneBatch) -> tuple[Array, Array, Array]:
    """Returns three arrays that describe a batch of scenes with n objects in all, and with p pairs of objects in the same scene. The first
    (n, 19) has the `OBJECT_COLUMNS` of each object, one scene after another. The second (p, 8) has the `PAIR_LENGTHS` of each pair. The
    third (p, 2) says for each pair, as 0 or 1, whether the two objects touch, and whether they are glued.

    Each pair occurs in both orders, and each object is also paired with itself. The network reads each length in two forms: clipped to ±2 ·
    MAX_WIDTH and divided by SCALE, and as tanh(SHARP · length). So a pair has 18 features.
    """
    nodes, p = np.zeros((scenes.first[-1], NODE_FEATURES), np.float32), scenes.first_pair[-1]
    lengths, links = np.empty((p, _LENGTHS), np.float32), np.empty((p, PAIR_FEATURES - 2 * _LENGTHS), np.float32)
    given = (scenes.pose, scenes.size, scenes.velocity, scenes.role, scenes.sticky, scenes.touch, scenes.glue, scenes.left)
    _describe(*given, nodes, lengths, links, scenes.first, scenes.first_pair)
    return nodes, lengths, links


def clock(steps_left: Ints) -> Array:
    """The `CLOCK_COLUMNS` (B, 3) of each of B numbers of steps left. Each is about 1. The last two resolve small numbers of steps."""
    left = np.clip(steps_left, 1, MOST_STEPS).astype(np.float32)
    return np.stack([left / 10, np.tanh(left / 4), 1 / left], axis=1)


@compiled
def _describe(
    pose: Array,
    size: Array,
    velocity: Array,
    role: Ints,
    sticky: Array,
    touch: Array,
    glue: Array,
    left: Array,
    nodes: Array,
    lengths: Array,
    links: Array,
    first: Ints,
    first_pair: Ints,
) -> None:
    """Fills the arrays that `describe` returns: `nodes` (n, 19), `lengths` (p, 8) and `links` (p, 2). The other arguments are fields of a
    `SceneBatch`."""
    sides = np.empty((pose.shape[1], 6), np.float32)  # centre x and y, then left, right, bottom and top of the box around an object
    for b in range(len(pose)):
        start, count = first[b], first[b + 1] - first[b]
        for i in range(count):
            x, y, angle, w, h = pose[b, i, 0], pose[b, i, 1], pose[b, i, 2], size[b, i, 0], size[b, i, 1]
            c, s, short = cos(angle), sin(angle), min(w, np.float32(MAX_WIDTH))
            node = nodes[start + i]
            node[0], node[1], node[2], node[3] = x / 7, y / SCALE, c - 1, s
            node[4], node[5], node[6], node[7] = short / SCALE, h, (x - short / 2) / 7, (x + short / 2) / 7
            node[8] = sticky[b, i]
            node[9] = min(velocity[b, i, 0] ** 2 + velocity[b, i, 1] ** 2, 1.0)
            node[10] = min(max(velocity[b, i, 2], -1.0), 1.0)
            node[_ROLE + role[b, i]] = 1
            for k in range(KINDS):
                node[_ROLE + _ROLES + k] = left[b, k] / 3
            across, up = (w * abs(c) + h * abs(s)) / 2, (w * abs(s) + h * abs(c)) / 2
            sides[i, 0], sides[i, 1] = x, y
            sides[i, 2], sides[i, 3], sides[i, 4], sides[i, 5] = x - across, x + across, y - up, y + up
        for i in range(count):
            mine = sides[i]
            for j in range(count):
                other, at = sides[j], first_pair[b] + i * count + j
                pair = lengths[at]
                pair[0], pair[1] = mine[0] - other[0], mine[1] - other[1]
                pair[2], pair[3] = mine[2] - other[2], mine[3] - other[3]
                pair[4], pair[5] = mine[2] - other[3], mine[3] - other[2]
                pair[6], pair[7] = mine[4] - other[5], mine[5] - other[4]
                links[at, 0], links[at, 1] = touch[b, i, j], glue[b, i, j]
