"""Random scenes, and drawing one pixel at a time: slow, plain, and what the fast rasteriser is held against."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from trilith.world.scene import VIEW, Role, Scene, fresh_scene


def _random_scene(seed: int, size: int = 12) -> Scene:
    """Targets of both kinds, obstacles and blocks anywhere, also partly or wholly out of view, at any angle, some glued."""
    rng = np.random.default_rng(seed)

    def boxes(n: int, height: float) -> list[tuple[float, float, float, float]]:
        columns = [rng.uniform(-9, 9, n), rng.uniform(-4, 14, n), rng.uniform(0.35, 3.5, n), np.full(n, height)]
        return list(zip(*(column.tolist() for column in columns), strict=True))

    targets, obstacles, blocks = rng.multinomial(size, [0.3, 0.2, 0.5])
    scene = fresh_scene(boxes(targets, rng.choice([0.35, 0.7])), boxes(obstacles, 0.35))
    new = np.array(boxes(blocks, 0.7)).reshape(-1, 4)
    n = len(scene) + blocks
    angle = rng.choice([0.0, math.pi / 2, 1.0], blocks) * rng.choice([1.0, rng.normal()], blocks)
    row = np.arange(len(scene), n)
    glue = np.column_stack([row[:-1], row[1:]])[:3]
    return Scene(
        pose=np.concatenate([scene.pose, np.column_stack([new[:, :2], angle])]),
        size=np.concatenate([scene.size, new[:, 2:]]),
        velocity=np.zeros((n, 3)),
        role=np.concatenate([scene.role, np.full(blocks, Role.BLOCK)]),
        sticky=np.arange(n) >= n - blocks // 2,
        contact=scene.contact,
        glue=glue,
        glue_frame=rng.uniform(-0.5, 0.5, (len(glue), 5)),
    )


def _slow_mask(pose: np.ndarray, size: np.ndarray, pixels: int) -> np.ndarray:
    """(pixels, pixels): 1 inside a rectangle, 0 outside, nan within a hair of its edge, where rounding may decide either way."""
    left, right, bottom, top = VIEW
    x, y, angle = pose
    w, h = size
    mask = np.zeros((pixels, pixels))
    for row in range(pixels):
        for column in range(pixels):
            dx = left + (right - left) * (column + 0.5) / pixels - x
            dy = top - (top - bottom) * (row + 0.5) / pixels - y
            along = abs(math.cos(angle) * dx + math.sin(angle) * dy) - w / 2
            across = abs(math.cos(angle) * dy - math.sin(angle) * dx) - h / 2
            outside = max(along, across)
            mask[row, column] = math.nan if abs(outside) < 1e-9 else outside < 0
    return mask


@pytest.fixture(scope="session")
def random_scene() -> Callable[..., Scene]:
    return _random_scene


@pytest.fixture(scope="session")
def slow_mask() -> Callable[[np.ndarray, np.ndarray, int], np.ndarray]:
    return _slow_mask
