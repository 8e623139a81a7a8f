"""Covering and Covering Hard: shelter every obstacle from above, without touching any."""

from __future__ import annotations

from math import cos, sin
from typing import ClassVar

import numpy as np

from trilith.utils.compiled import compiled
from trilith.world.scene import SLOTS, Floats, Ints, Role, Scene, fresh_scene
from trilith.world.tasks.task import BASE_OBJECTS, Level, Progress, Task, obstacle_layer, uniform

OBSTACLES = (1, 2)
"""Fewest and most obstacles in a layer."""
ENOUGH = 0.99
"""Share of the total length above which everything counts as covered."""


class _Shelter(Task):
    """What both coverings share: the score, and scenes of layers of obstacles."""

    unit = "m"
    obstacle_width: ClassVar[tuple[float, float]]
    layer_step: ClassVar[int]
    """Obstacles lie in every layer, or in every second one."""

    def generate(self, rng: np.random.Generator, level: Level) -> Scene:
        layers = range(0, self.layer_step * int(level) + 1, self.layer_step)
        return fresh_scene([], [o for layer in layers for o in obstacle_layer(rng, layer, OBSTACLES, self.obstacle_width)])

    def score(self, scene: Scene) -> float:
        return float(covered(scene).sum())

    def progress(self, scene: Scene) -> Progress:
        return Progress(covered=covered_spans(scene))

    def best(self, scene: Scene) -> float:
        return float(scene.size[scene.rows(Role.OBSTACLE), 0].sum())

    def complete(self, scene: Scene, score: float) -> bool:
        return score > ENOUGH * self.best(scene)


class Covering(_Shelter):
    """Build a shelter over layers of obstacles that are far enough apart to build between them.

    ## Action
    Place an available block; there is no end to the supply. Making it sticky costs 2, which hardly ever pays.

    ## Observation
    Obstacles are 0.35 high and must not be touched. There are no targets.

    ## Reward
    The change of the covered length: of each obstacle's top, what lies under the horizontal projection of some placed
    block whose centre is at or above the obstacle's (never counted twice); −2 for each sticky block.

    ## End
    More than 99 % covered; 28 steps; an obstacle touched; a placement that is not possible.

    ## Levels
    Level d from 0 to 2 has 1–2 obstacles, 0.7 to 2.8 wide, in each of the layers 0, 2, … 2d.
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
    """Build a shelter over a dense field of obstacles with seven blocks and no more.

    ## Action
    Place one of the available blocks that are left. Making it sticky costs 0.5.

    ## Observation
    Obstacles are 0.35 high and must not be touched. A used block is no longer available: its row becomes the placed one.

    ## Reward
    The change of the covered length, as in Covering; −0.5 for each sticky block.

    ## End
    More than 99 % covered; no block left; an obstacle touched; a placement that is not possible.

    ## Levels
    Level d, 0 or 1, has 1–2 obstacles, 0.7 to 3.5 wide, in each of the layers 0 … d. The training mix has two scenes of
    level 0 for each of level 1, which gives the paper's mean of 4.2.
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
    """(O,): length of each obstacle's top, in row order, that lies under some block at or above it."""
    blocks, obstacles = scene.rows(Role.BLOCK), scene.rows(Role.OBSTACLE)
    return _covered(scene.pose, scene.size, blocks, obstacles)


@compiled
def _covered(pose: Floats, size: Floats, blocks: Ints, obstacles: Ints) -> Floats:
    left, right = np.empty(len(blocks)), np.empty(len(blocks))
    for k, b in enumerate(blocks):
        reach = (size[b, 0] * abs(cos(pose[b, 2])) + size[b, 1] * abs(sin(pose[b, 2]))) / 2
        left[k], right[k] = pose[b, 0] - reach, pose[b, 0] + reach
    from_left = np.argsort(left)
    lengths = np.zeros(len(obstacles))
    for k, o in enumerate(obstacles):
        furthest, end = pose[o, 0] - size[o, 0] / 2, pose[o, 0] + size[o, 0] / 2
        for b in from_left:  # each span adds what lies beyond the furthest right end so far
            begin, stop = max(left[b], furthest), min(right[b], end)
            if pose[blocks[b], 1] >= pose[o, 1] and stop > begin:
                lengths[k] += stop - begin
                furthest = stop
    return lengths


def covered_spans(scene: Scene) -> tuple[tuple[float, float, float], ...]:
    """Left end, right end and height of each covered stretch of an obstacle's top; their lengths sum to the score."""
    spans: list[tuple[float, float, float]] = []
    blocks = scene.rows(Role.BLOCK)
    pose, size = scene.pose[blocks], scene.size[blocks]
    reach = (size[:, 0] * np.abs(np.cos(pose[:, 2])) + size[:, 1] * np.abs(np.sin(pose[:, 2]))) / 2
    for row in scene.rows(Role.OBSTACLE).tolist():
        (x, y, _), (w, h) = scene.pose[row].tolist(), scene.size[row].tolist()
        above = pose[:, 1] >= y
        lefts = np.maximum(pose[above, 0] - reach[above], x - w / 2).tolist()
        rights = np.minimum(pose[above, 0] + reach[above], x + w / 2).tolist()
        own = len(spans)
        for left, right in sorted(zip(lefts, rights, strict=True)):
            end = spans[-1][1] if len(spans) > own else x - w / 2
            if right <= max(left, end):
                continue
            if len(spans) > own and left <= end:
                spans[-1] = (spans[-1][0], right, y + h / 2)  # grows what was there
            else:
                spans.append((left, right, y + h / 2))
    return tuple(spans)
