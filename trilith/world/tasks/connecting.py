"""Connecting: reach three targets high above the floor, past layers of obstacles."""

from __future__ import annotations

from math import cos, sin
from typing import NamedTuple

import numpy as np

from trilith.utils.compiled import compiled
from trilith.world.geometry.rectangles import contains
from trilith.world.scene import Bools, Floats, Ints, Role, Scene, fresh_scene
from trilith.world.tasks.task import BASE_OBJECTS, Level, Progress, Task, layer_y, obstacle_layer, spread, uniform

TARGETS = 3
TARGET_SIZE = 0.35
OBSTACLE_WIDTH = (0.7, 2.8)
MIN_GAP = 1.4
"""Minimum gap, in metres, between two obstacles of a layer, so that blocks can pass between them."""


class _Row(NamedTuple):
    """The properties of the scenes of one level: a row of the table of levels."""

    obstacle_layers: tuple[int, ...]
    obstacles: tuple[int, int]
    """Minimum and maximum number of obstacles in a layer."""
    target_layers: tuple[int, ...]
    """Layers of the targets: one layer for all three, or one layer for each."""
    steps: int
    """Step limit of an episode."""


_LEVELS: dict[Level, _Row] = {
    0: _Row((), (0, 0), (0,), 7),
    1: _Row((), (0, 0), (1,), 7),
    2: _Row((0,), (1, 1), (1,), 7),
    3: _Row((0,), (1, 2), (1,), 7),
    4: _Row((0,), (2, 3), (1,), 7),
    5: _Row((0,), (2, 3), (2,), 14),
    6: _Row((0,), (3, 3), (3,), 21),
    7: _Row((0, 2), (3, 3), (3,), 21),
    8: _Row((0, 2), (3, 3), (4,), 21),
    9: _Row((0, 2, 4), (3, 3), (5,), 21),
    "mixed_height_targets": _Row((0, 2, 4), (3, 3), (1, 3, 5), 26),
    "additional_layer": _Row((0, 2, 4, 6), (3, 3), (7,), 26),
}


class Connecting(Task):
    """Connect the floor to three targets: a target counts while its centre lies inside a placed block.

    ## Action
    Place an available block; the supply is unlimited. Making it sticky is free.

    ## Observation
    Targets are 0.35 m × 0.35 m and not solid. Obstacles are 0.35 m high, lie in layers, and must not be touched.

    ## Reward
    +1 for each target whose centre lies inside a placed block; −1 when it no longer does.

    ## End
    All three reached; the step limit; an obstacle touched; a placement that is not possible.

    ## Levels
    0 to 9, with up to three layers of up to three obstacles and targets up to layer 5; see the table in this file.
    `mixed_height_targets`: a target in each of layers 1, 3 and 5. `additional_layer`: a fourth layer of obstacles.
    """

    name = "connecting"
    title = "Connecting"
    levels = tuple(range(10))
    mix = uniform(levels)
    generalisation = ("mixed_height_targets", "additional_layer")
    sticky_cost = 0.0
    pass_mark = 0.25

    def generate(self, rng: np.random.Generator, level: Level) -> Scene:
        row = _LEVELS[level]
        obstacles = [o for layer in row.obstacle_layers for o in obstacle_layer(rng, layer, row.obstacles, OBSTACLE_WIDTH, MIN_GAP)]
        widths = [TARGET_SIZE] * (TARGETS // len(row.target_layers))
        targets = [(x, layer_y(layer), TARGET_SIZE, TARGET_SIZE) for layer in row.target_layers for x in spread(rng, widths)]
        return fresh_scene(targets, obstacles)

    def score(self, scene: Scene) -> float:
        return float(np.count_nonzero(reached(scene)))

    def progress(self, scene: Scene) -> Progress:
        return Progress(done=tuple(reached(scene).tolist()))

    def best(self, scene: Scene) -> float:
        return float(TARGETS)

    def max_steps(self, scene: Scene, level: Level) -> int:
        return _LEVELS[level].steps

    def max_objects(self, level: Level) -> int:
        row = _LEVELS[level]
        return BASE_OBJECTS + TARGETS + len(row.obstacle_layers) * row.obstacles[1] + row.steps


def reached(scene: Scene) -> Bools:
    """Mask (T,): which of the T targets of a scene, in row order, have their centre inside a placed block."""
    return _reached(scene.pose, scene.size, scene.rows(Role.BLOCK), scene.rows(Role.TARGET))


@compiled
def _reached(pose: Floats, size: Floats, blocks: Ints, targets: Ints) -> Bools:
    result = np.zeros(len(targets), dtype=np.bool_)
    for k, t in enumerate(targets):
        for b in blocks:
            dx, dy = pose[t, 0] - pose[b, 0], pose[t, 1] - pose[b, 1]
            result[k] |= contains(size[b, 0], size[b, 1], cos(pose[b, 2]), sin(pose[b, 2]), dx, dy)
    return result
