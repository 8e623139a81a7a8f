"""Silhouette: put a block of the right size onto every target."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trilith.scene import BLOCK_HEIGHT, LARGE, MEDIUM, SMALL, Bools, Role, Scene, fresh_scene
from trilith.tasks.task import BASE_OBJECTS, OBSTACLE_HEIGHT, SCENE_WIDTH, Level, Task, layer_y, uniform

CELL_GAP = 0.35
"""A piece lies in the middle of a cell this much wider than itself."""
MAX_OFFSET = 3.85
"""The first cell of a layer begins up to this far from the left end: a large block and its gap."""
SUPPORT = 0.9 * SMALL
"""A target lies above another if they share at least this much of their width."""
NEAR = 0.14
"""An obstacle may lie above a target, or miss being above it by up to this."""
HEIGHT_BIAS = 1.75
"""Pieces are drawn with probability ∝ (layer number, from 1) to this power, which favours towers and inverted pyramids."""
MIN_OVERLAP = 0.9
HORIZONTAL = 0.05
"""A block counts as horizontal while |sin(angle)| is below this."""


class _Piece(NamedTuple):
    """A block-shaped place in a layer of the tessellation."""

    layer: int
    x: float
    width: float

    def overlap(self, other: _Piece) -> float:
        """Length that two pieces share in x; negative where there is a gap."""
        return min(self.x + self.width / 2, other.x + other.width / 2) - max(self.x - self.width / 2, other.x - other.width / 2)


class Silhouette(Task):
    """Fill a silhouette: every target wants a block of its own size in its own place.

    ## Action
    Place an available block; there is no end to the supply. Making it sticky costs 0.5.

    ## Observation
    Targets are 0.7 high and not solid. Obstacles are 0.35 high and must not be touched.

    ## Reward
    +1 for each target whose nearest horizontal block (|sin θ| < 0.05) has the target's size and overlaps it by more than
    90 %, measured as (w − |dx|)⁺ (h − |dy|)⁺ / (w h); −1 when a block slides off again; −0.5 for each sticky block.

    ## End
    All targets filled; as many steps as there are targets; an obstacle touched; a placement that is not possible.

    ## Levels
    Level d from 0 to 7 has d + 1 targets in min(d + 1, 6) layers and, from level 2 on, 1 to d − 1 obstacles.
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
        targets, layers, (fewest, most) = _numbers(level)
        obstacles = int(rng.integers(fewest, most + 1)) if most else 0
        while True:
            pieces = _tessellate(rng, layers)
            chosen = _draw_targets(rng, pieces, targets)
            blocked = None if chosen is None else _draw_obstacles(rng, pieces, chosen, obstacles)
            if chosen is not None and blocked is not None:
                break
        return fresh_scene(
            [(p.x, layer_y(p.layer), p.width, BLOCK_HEIGHT) for p in chosen],
            [(p.x, layer_y(p.layer), p.width, OBSTACLE_HEIGHT) for p in blocked],
        )

    def score(self, scene: Scene) -> float:
        return float(np.count_nonzero(filled(scene)))

    def best(self, scene: Scene) -> float:
        return float(np.count_nonzero(scene.role == Role.TARGET))

    def max_steps(self, scene: Scene, level: Level) -> int:
        return int(np.count_nonzero(scene.role == Role.TARGET))

    def max_objects(self, level: Level) -> int:
        targets, _, (_, most) = _numbers(level)
        return BASE_OBJECTS + 2 * targets + most


def filled(scene: Scene) -> Bools:
    """(T,): which targets, in row order, have the right block in the right place."""
    targets = scene.rows(Role.TARGET)
    blocks = np.flatnonzero((scene.role == Role.BLOCK) & (np.abs(np.sin(scene.pose[:, 2])) < HORIZONTAL))
    if not len(blocks):
        return np.zeros(len(targets), dtype=bool)
    away = np.abs(scene.pose[targets, None, :2] - scene.pose[None, blocks, :2])
    nearest = np.argmin((away**2).sum(axis=-1), axis=1)
    away = away[np.arange(len(targets)), nearest]
    size = scene.size[targets]
    shared = np.maximum(size - away, 0).prod(axis=1) / size.prod(axis=1)
    return (shared > MIN_OVERLAP) & (scene.size[blocks[nearest]] == size).all(axis=1)


def _numbers(level: Level) -> tuple[int, int, tuple[int, int]]:
    """Number of targets, of layers, and the range of the number of obstacles."""
    if level == "nine_targets":
        return 9, 6, (1, 6)
    if level == "double_the_targets":
        return 16, 6, (1, 4)
    d = int(level)
    return d + 1, min(d + 1, 6), (1, d - 1) if d >= 2 else (0, 0)


def _tessellate(rng: np.random.Generator, layers: int) -> list[_Piece]:
    """Pieces of block width, side by side in each layer, from a random start; cells that would end beyond 14 m are dropped."""
    pieces = []
    for layer in range(layers):
        left = float(rng.uniform(0, MAX_OFFSET))
        while True:
            width = (SMALL, MEDIUM, LARGE)[rng.integers(3)]
            cell = width + CELL_GAP
            if left + cell > SCENE_WIDTH:
                break
            pieces.append(_Piece(layer, left + cell / 2 - SCENE_WIDTH / 2, width))
            left += cell
    return pieces


def _draw(rng: np.random.Generator, candidates: list[_Piece]) -> _Piece:
    weight = np.array([(p.layer + 1) ** HEIGHT_BIAS for p in candidates])
    return candidates[int(rng.choice(len(candidates), p=weight / weight.sum()))]


def _draw_targets(rng: np.random.Generator, pieces: list[_Piece], count: int) -> list[_Piece] | None:
    """Targets one after another, each on the floor or directly above one already chosen; None when there is no further one."""
    chosen: list[_Piece] = []
    for _ in range(count):
        candidates = [
            p for p in pieces
            if p not in chosen and (p.layer == 0 or any(t.layer == p.layer - 1 and p.overlap(t) >= SUPPORT for t in chosen))
        ]  # fmt: skip
        if not candidates:
            return None
        chosen.append(_draw(rng, candidates))
    return chosen


def _draw_obstacles(rng: np.random.Generator, pieces: list[_Piece], targets: list[_Piece], count: int) -> list[_Piece] | None:
    """Obstacles from the pieces left over that lie on the floor or about above a target; None when there are too few."""
    candidates = [
        p for p in pieces
        if p not in targets and (p.layer == 0 or any(t.layer == p.layer - 1 and p.overlap(t) >= -NEAR for t in targets))
    ]  # fmt: skip
    if len(candidates) < count:
        return None
    chosen = []
    for _ in range(count):
        piece = _draw(rng, candidates)
        candidates.remove(piece)
        chosen.append(piece)
    return chosen
