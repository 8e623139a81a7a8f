"""The observation `objects` of environments: one row per object. The package's own networks read different columns; see
`networks/inputs/objects.py`."""

from __future__ import annotations

from math import cos, sin

import numpy as np
from numpy.typing import NDArray

from trilith.utils.compiled import compiled
from trilith.world.scene import Bools, Floats, Ints, Role, Scene

COLUMNS = (
    *("x in m", "y in m", "cos of the angle", "sin of the angle", "width in m", "height in m"),
    *("velocity along x in m/s", "velocity along y in m/s", "angular velocity in rad/s", "sticky"),
    *(role.name.lower() for role in Role),
)
"""The 15 columns of an object. The paper says 15 numbers, but the columns that it names are only 14, with four roles. Here the floor is the
fifth role."""
FEATURES = len(COLUMNS)


def objects(scene: Scene) -> NDArray[np.float32]:
    """The observation (N, 15) of a scene with N objects: the 15 features that `COLUMNS` names, for each object, in row order."""
    return _objects(scene.pose, scene.size, scene.velocity, scene.role, scene.sticky)


@compiled
def _objects(pose: Floats, size: Floats, velocity: Floats, role: Ints, sticky: Bools) -> NDArray[np.float32]:
    rows = np.zeros((len(role), FEATURES), dtype=np.float32)
    for k in range(len(role)):
        rows[k, 0], rows[k, 1] = pose[k, 0], pose[k, 1]
        rows[k, 2], rows[k, 3] = cos(pose[k, 2]), sin(pose[k, 2])
        rows[k, 4], rows[k, 5] = size[k, 0], size[k, 1]
        rows[k, 6], rows[k, 7], rows[k, 8] = velocity[k, 0], velocity[k, 1], velocity[k, 2]
        rows[k, 9] = sticky[k]
        rows[k, 10 + role[k]] = 1
    return rows
