"""Covering and Covering Hard: shelter every obstacle from above, without touching any."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trilith.utils.compiled import compiled
from trilith.world.geometry.coverage import covered_lengths, covered_pieces
from trilith.world.scene import SLOTS, Floats, Ints, Role, Scene, fresh_scene
from trilith.world.tasks.task import BASE_OBJECTS, Level, Progress, Task, obstacle_layer, uniform

_BLOCK, _OBSTACLE = int(Role.BLOCK), int(Role.OBSTACLE)
OBSTACLES = (1, 2)
"""Minimum and maximum number of obstacles in a layer."""
ENOUGH = 0.99
"""The task is complete if more than this fraction of the total length of all obstacles is covered."""


class _Shelter(Task):
    """Base class of both covering tasks: the score, and scenes with layers of obstacles."""

    unit = "m"
    obstacle_width: ClassVar[tuple[float, float]]
    """Minimum and maximum width of an obstacle, in metres."""
    layer_step: ClassVar[int]
    """1: obstacles lie in every layer. 2: obstacles lie in every second layer."""

    def generate(self, rng: np.random.Generator, level: Level) -> Scene:
        layers = range(0, self.layer_step * int(level) + 1, self.layer_step)
        return fresh_scene([], [o for layer in layers for o in obstacle_layer(rng, layer, OBSTACLES, self.obstacle_width)])

    def score(self, scene: Scene) -> float:
        return _total_covered(scene.pose, scene.size, scene.role)

    def progress(self, scene: Scene) -> Progress:
        return Progress(covered=covered_spans(scene))

    def best(self, scene: Scene) -> float:
        return _total_length(scene.size, scene.role)

    def complete(self, scene: Scene, score: float) -> bool:
        return score > ENOUGH * self.best(scene)


class Covering(_Shelter):
    """Build a shelter over layers of obstacles that are far enough apart to build between them.

    ## Action
    Place an available block; the supply is unlimited. Making it sticky costs 2, which hardly ever pays.

    ## Observation
    Obstacles are 0.35 m high and must not be touched. There are no targets.

    ## Reward
    The change of the covered length in metres. A part of an obstacle's top is covered if it lies under a placed block whose centre is at or
    above the centre of the obstacle. No part counts twice. −2 for each sticky block.

    ## End
    More than 99 % covered; 28 steps; an obstacle touched; a placement that is not possible.

    ## Levels
    Level d from 0 to 2 has 1–2 obstacles, 0.7 to 2.8 m wide, in each of the layers 0, 2, … 2d.
    """

    name = "covering"
    title = "Covering"
    levels = (0, 1, 2)
    mix = uniform(levels)
    sticky_cost = 2.0
    pass_mark = 0.25
    obstacle_width = (0.7, 2.8)
    layer_step = 2

    def max_steps(self, scene: Scene, level: Level) -> int:
        return 28

    def max_objects(self, level: Level) -> int:
        return BASE_OBJECTS + OBSTACLES[1] * (int(level) + 1) + 28


class CoveringHard(_Shelter):
    """Build a shelter over a dense field of obstacles with only seven blocks.

    ## Action
    Place one of the available blocks that are left. Making it sticky costs 0.5.

    ## Observation
    Obstacles are 0.35 m high and must not be touched. A used block is no longer available: the placed block takes its row.

    ## Reward
    The change of the covered length, as in Covering; −0.5 for each sticky block.

    ## End
    More than 99 % covered; no block left; an obstacle touched; a placement that is not possible.

    ## Levels
    Level d, 0 or 1, has 1–2 obstacles, 0.7 to 3.5 m wide, in each of the layers 0 … d. The training mix has two scenes of
    level 0 for each scene of level 1. The mean length of the obstacles of a scene is then 4.2 m, as in the paper.
    """

    name = "covering_hard"
    title = "Covering Hard"
    levels = (0, 1)
    mix = (2 / 3, 1 / 3)
    sticky_cost = 0.5
    keeps_supply = False
    obstacle_width = (0.7, 3.5)
    layer_step = 1

    def max_steps(self, scene: Scene, level: Level) -> int:
        return SLOTS

    def max_objects(self, level: Level) -> int:
        return BASE_OBJECTS + OBSTACLES[1] * (int(level) + 1)


def covered(scene: Scene) -> Floats:
    """(O,): covered length of the top of each of the O obstacles of a scene, in metres, in row order."""
    return covered_lengths(scene.pose, scene.size, scene.rows(Role.BLOCK), scene.rows(Role.OBSTACLE))


@compiled
def _total_covered(pose: Floats, size: Floats, role: Ints) -> float:
    """The covered length of all obstacles together, in metres."""
    total = 0.0
    for length in covered_lengths(pose, size, _rows(role, _BLOCK), _rows(role, _OBSTACLE)):
        total += length
    return total


@compiled
def _rows(role: Ints, wanted: int) -> Ints:
    """The rows with the role `wanted`, ascending. `role` (N,) has the role of each row."""
    rows, count = np.empty(len(role), dtype=np.int64), 0
    for row in range(len(role)):
        if role[row] == wanted:
            rows[count] = row
            count += 1
    return rows[:count]


@compiled
def _total_length(size: Floats, role: Ints) -> float:
    """The sum of the lengths of all obstacles, in metres."""
    total = 0.0
    for row in range(len(role)):
        if role[row] == _OBSTACLE:
            total += size[row, 0]
    return total


def covered_spans(scene: Scene) -> tuple[tuple[float, float, float], ...]:
    """(left x, right x, y) of each covered interval on the top of an obstacle, in metres. The score is the sum of the lengths of these
    intervals."""
    obstacles = scene.rows(Role.OBSTACLE)
    top = scene.pose[obstacles, 1] + scene.size[obstacles, 1] / 2
    spans: list[tuple[int, float, float]] = []
    for obstacle, begin, end in covered_pieces(scene.pose, scene.size, scene.rows(Role.BLOCK), obstacles).tolist():
        if spans and spans[-1][0] == obstacle and spans[-1][2] == begin:
            begin = spans.pop()[1]  # the piece continues the previous one
        spans.append((int(obstacle), begin, end))
    return tuple((begin, end, float(top[obstacle])) for obstacle, begin, end in spans)
