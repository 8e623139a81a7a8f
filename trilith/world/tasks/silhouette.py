"""Silhouette: put a block of the right size onto every target."""

from __future__ import annotations

from math import sin
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trilith.utils.compiled import compiled
from trilith.world.scene import BLOCK_HEIGHT, LARGE, MEDIUM, SMALL, Bools, Floats, Ints, Role, Scene, fresh_scene
from trilith.world.tasks.task import BASE_OBJECTS, OBSTACLE_HEIGHT, SCENE_WIDTH, Level, Progress, Task, layer_y, uniform

CELL_GAP = 0.35
"""Metres: a scene is generated from layers of cells, with a piece of block width in the middle of each cell. A cell is this much wider than
its piece."""
MAX_OFFSET = 3.85
"""Maximum distance in metres from the left end of the scene to the first cell of a layer: the width of a large block plus `CELL_GAP`."""
SUPPORT = 0.9 * SMALL
"""Metres: a target counts as directly above another if the two overlap horizontally by at least this."""
NEAR = 0.14
"""Metres: an obstacle above the floor needs a target in the layer below, with a horizontal gap between the two of at most this."""
HEIGHT_BIAS = 1.75
"""Targets and obstacles are drawn from the pieces of all layers. The probability of a piece in layer k is proportional to
(k + 1) ** HEIGHT_BIAS. This favours towers and inverted pyramids."""
MIN_OVERLAP = 0.9
_TARGET = int(Role.TARGET)
_WIDTHS = np.array([SMALL, MEDIUM, LARGE])
HORIZONTAL = 0.05
"""A block counts as horizontal while |sin(angle)| is below this."""
SAME = 1e-3
"""Largest difference, in metres, of sizes that are treated as equal: widths that other programs computed are rarely exact."""
_LEVELS: dict[Level, tuple[int, int, tuple[int, int]]] = {
    **{d: (d + 1, min(d + 1, 6), (1, d - 1) if d >= 2 else (0, 0)) for d in range(8)},
    "nine_targets": (9, 6, (1, 6)),
    "double_the_targets": (16, 6, (1, 4)),
}
"""For each level: number of targets, number of layers, and (minimum, maximum) number of obstacles."""


class _Pieces(NamedTuple):
    """P pieces of the size of blocks, which fill a scene: layer by layer from below, and from left to right within a layer. Each array is
    (P,): number of the layer, x of the centre, and width of each piece, in metres."""

    layer: Ints
    x: Floats
    width: Floats


class Silhouette(Task):
    """Fill a silhouette: every target needs a block of its own size in its own place.

    ## Action
    Place an available block; the supply is unlimited. Making it sticky costs 0.5.

    ## Observation
    Targets are 0.7 m high and not solid. Obstacles are 0.35 m high and must not be touched.

    ## Reward
    +1 for each target that is filled, −1 when its block slides off again, −0.5 for each sticky block. A target is filled if the
    nearest horizontal block (|sin θ| < 0.05) has the target's size (to 1 mm) and overlaps more than 90 % of it, computed without tilt.

    ## End
    All targets filled; as many steps as there are targets; an obstacle touched; a placement that is not possible.

    ## Levels
    Level d from 0 to 7 has d + 1 targets in as many layers, but at most 6, and from level 2 on 1 to d − 1 obstacles.
    `nine_targets`: 9 targets, 1–6 obstacles. `double_the_targets`: 16 targets, 1–4 obstacles. Both in 6 layers.
    """

    name = "silhouette"
    title = "Silhouette"
    levels = tuple(range(8))
    mix = uniform(levels)
    generalisation = ("nine_targets", "double_the_targets")
    sticky_cost = 0.5
    grid = (256, 256)

    def generate(self, rng: np.random.Generator, level: Level) -> Scene:
        targets, layers, (fewest, most) = _LEVELS[level]
        obstacles = int(rng.integers(fewest, most + 1)) if most else 0
        while True:
            pieces = _tessellate(rng, layers)
            drawn = _draw_rows(rng, pieces, targets, obstacles)
            if drawn is not None:
                break
        rows = [
            [(float(pieces.x[p]), layer_y(int(pieces.layer[p])), float(pieces.width[p]), height) for p in chosen]
            for chosen, height in zip(drawn, (BLOCK_HEIGHT, OBSTACLE_HEIGHT), strict=True)
        ]
        return fresh_scene(*rows)

    def score(self, scene: Scene) -> float:
        return float(np.count_nonzero(filled(scene)))

    def progress(self, scene: Scene) -> Progress:
        return Progress(done=tuple(filled(scene).tolist()))

    def best(self, scene: Scene) -> float:
        return float(_targets(scene))

    def max_steps(self, scene: Scene, level: Level) -> int:
        return _targets(scene)

    def max_objects(self, level: Level) -> int:
        targets, _, (_, most) = _LEVELS[level]
        return BASE_OBJECTS + 2 * targets + most


def _targets(scene: Scene) -> int:
    """The number of targets in a scene."""
    return scene.role.tolist().count(_TARGET)


def filled(scene: Scene) -> Bools:
    """Mask (T,): which of the T targets of a scene, in row order, are filled. A target is filled if the nearest horizontal block has the
    size of the target and overlaps more than 90 % of it."""
    return which_filled(scene.pose, scene.size, scene.rows(Role.BLOCK), scene.rows(Role.TARGET))


@compiled
def which_filled(pose: NDArray[np.floating[Any]], size: NDArray[np.floating[Any]], blocks: Ints, targets: Ints) -> Bools:
    """Mask (T,): which of T targets are filled. A target is filled if the nearest horizontal block has the size of the target and overlaps
    more than 90 % of it. `blocks` (B,) and `targets` (T,) are rows of `pose` (N, 3) and `size` (N, 2)."""
    result = np.zeros(len(targets), dtype=np.bool_)
    for k, t in enumerate(targets):
        nearest = np.inf
        for b in blocks:
            dx, dy = abs(pose[b, 0] - pose[t, 0]), abs(pose[b, 1] - pose[t, 1])
            if abs(sin(pose[b, 2])) < HORIZONTAL and dx * dx + dy * dy < nearest:
                nearest = dx * dx + dy * dy
                w, h = size[t, 0], size[t, 1]
                shared = max(w - dx, 0.0) * max(h - dy, 0.0) / (w * h)
                result[k] = abs(size[b, 0] - w) <= SAME and abs(size[b, 1] - h) <= SAME and shared > MIN_OVERLAP
    return result


def _tessellate(rng: np.random.Generator, layers: int) -> _Pieces:
    """Draws pieces of random block widths for each of `layers` layers, side by side from a random start. Pieces whose cells would end
    beyond the 14 m of the scene are dropped."""
    parts = []
    most = int(SCENE_WIDTH / (SMALL + CELL_GAP)) + 1
    for layer in range(layers):
        width = _WIDTHS[rng.integers(3, size=most)]
        right = rng.uniform(0, MAX_OFFSET) + np.cumsum(width + CELL_GAP)
        inside = int(np.searchsorted(right, SCENE_WIDTH, side="right"))
        width, right = width[:inside], right[:inside]
        parts.append((np.full(inside, layer), right - (width + CELL_GAP) / 2 - SCENE_WIDTH / 2, width))
    return _Pieces(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _draw_rows(rng: np.random.Generator, pieces: _Pieces, targets: int, obstacles: int) -> tuple[list[int], list[int]] | None:
    """Draws which pieces become targets and which become obstacles. `targets` and `obstacles` are their numbers. Returns two lists of
    indices of pieces, or None if too few pieces are suitable.

    Targets are drawn one after another, each on the floor or directly above a target already drawn. Obstacles are then drawn from the
    remaining pieces on the floor or above a target (see `NEAR`).
    """
    begin, end = pieces.x - pieces.width / 2, pieces.x + pieces.width / 2
    shared = np.minimum(end[:, None], end) - np.maximum(begin[:, None], begin)  # (P, P), in metres, negative where there is a gap
    overlap = np.where(pieces.layer[:, None] == pieces.layer + 1, shared, -np.inf)  # with each piece of the layer below
    weight = (pieces.layer + 1.0) ** HEIGHT_BIAS
    on_floor = pieces.layer == 0
    left = np.ones(len(weight), dtype=bool)

    def draw(count: int, reach: float, chosen: list[int], below: list[int]) -> bool:
        for _ in range(count):
            candidates = np.flatnonzero(left & (on_floor | (overlap[:, below] >= reach).any(axis=1)))
            if not len(candidates):
                return False
            total = np.cumsum(weight[candidates])
            piece = int(candidates[np.searchsorted(total, rng.random() * total[-1], side="right")])
            left[piece] = False
            chosen.append(piece)
        return True

    filled: list[int] = []
    blocked: list[int] = []
    if draw(targets, SUPPORT, filled, below=filled) and draw(obstacles, -NEAR, blocked, below=filled):
        return filled, blocked
    return None
