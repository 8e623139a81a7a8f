"""Objects as rows of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trilith.scene import Role, Scene

FEATURES = 15
"""x, y, cos θ, sin θ, w, h, v_x, v_y, v_θ, sticky, and a one-hot `Role` of five.

The paper says 15 numbers and names four types, which makes 14; the floor is the fifth type here.
"""


def objects(scene: Scene) -> NDArray[np.float32]:
    """(N, 15): a row per object in order of appearance."""
    rows = np.zeros((len(scene), FEATURES), dtype=np.float32)
    rows[:, :2] = scene.pose[:, :2]
    rows[:, 2] = np.cos(scene.pose[:, 2])
    rows[:, 3] = np.sin(scene.pose[:, 2])
    rows[:, 4:6] = scene.size
    rows[:, 6:9] = scene.velocity
    rows[:, 9] = scene.sticky
    rows[np.arange(len(scene)), FEATURES - len(Role) + scene.role] = 1
    return rows
