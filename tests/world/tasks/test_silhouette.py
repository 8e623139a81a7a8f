"""Silhouette: its score against plain loops, its scenes against the rules they are drawn by."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from worlds import LARGE_SLOT, MEDIUM_SLOT, SMALL_SLOT, blocks, number, shared_area, silhouette_targets, slots, with_blocks

from trilith.world.scene import LARGE, MEDIUM, SMALL, Role, fresh_scene
from trilith.world.tasks import TASKS
from trilith.world.tasks.silhouette import filled

TASK = TASKS["silhouette"]
NUMBERS = {
    **{d: (d + 1, min(d + 1, 6), range(1, d) if d >= 2 else range(1)) for d in range(8)},
    "nine_targets": (9, 6, range(1, 7)),
    "double_the_targets": (16, 6, range(1, 5)),
}
"""Targets, layers and numbers of obstacles of each level."""


def plainly_filled(scene) -> list[bool]:
    """The rule in words: the nearest horizontal block has the target's size and covers more than 90 % of it, tilt ignored."""
    result = []
    for t in scene.rows(Role.TARGET):
        x, y, _ = scene.pose[t]
        horizontal = []
        for b in scene.rows(Role.BLOCK):
            bx, by, angle = scene.pose[b]
            assume(abs(abs(math.sin(angle)) - 0.05) > 1e-9)
            if abs(math.sin(angle)) < 0.05:
                horizontal.append((math.hypot(bx - x, by - y), b))
        horizontal.sort()
        if not horizontal:
            result.append(False)
            continue
        assume(len(horizontal) == 1 or horizontal[1][0] - horizontal[0][0] > 1e-9)
        b = horizontal[0][1]
        share = shared_area((*scene.pose[b, :2], 0), scene.size[t], (x, y, 0), scene.size[t]) / (scene.size[t, 0] * scene.size[t, 1])
        assume(abs(share - 0.9) > 1e-9)
        result.append(bool(scene.size[b, 0] == scene.size[t, 0] and share > 0.9))
    return result


near = st.lists(
    st.tuples(st.integers(0, 4), st.booleans(), slots, number(-0.15, 0.15), number(-0.06, 0.06), number(-0.07, 0.07)), max_size=6
)
"""Blocks close to targets: which target, of its size or of any, and how far off in x, y and angle."""


@settings(max_examples=300)
@given(silhouette_targets, blocks, near)
def test_targets_are_filled_as_the_rule_says(targets, anywhere, close):
    slot_of = {SMALL: SMALL_SLOT, MEDIUM: MEDIUM_SLOT, LARGE: LARGE_SLOT}
    placed = list(anywhere)
    for which, fitting, slot, dx, dy, angle in close:
        x, y, w, _ = targets[which % len(targets)]
        placed.append((slot_of[w] if fitting else slot, x + dx, y + dy, angle))
    scene = with_blocks(fresh_scene(targets, []), placed)
    expected = plainly_filled(scene)
    assert list(filled(scene)) == expected
    assert TASK.score(scene) == sum(expected)
    assert TASK.complete(scene, TASK.score(scene)) == all(expected)


def one_target(block) -> bool:
    return bool(filled(with_blocks(fresh_scene([(0.0, 0.35, MEDIUM, 0.7)], []), [block]))[0])


def test_a_target_wants_its_own_size_in_its_own_place_and_level():
    assert one_target((MEDIUM_SLOT, 0.0, 0.35, 0.0))
    assert one_target((MEDIUM_SLOT, 0.2, 0.35, 0.0))  # 0.21 is a tenth of its width
    assert not one_target((MEDIUM_SLOT, 0.22, 0.35, 0.0))
    assert one_target((MEDIUM_SLOT, 0.0, 0.415, 0.0))  # 0.07 is a tenth of its height
    assert not one_target((MEDIUM_SLOT, 0.0, 0.425, 0.0))
    assert not one_target((MEDIUM_SLOT, 0.15, 0.39, 0.0))  # either would do, both together do not
    assert one_target((MEDIUM_SLOT, 0.0, 0.35, 0.049))
    assert not one_target((MEDIUM_SLOT, 0.0, 0.35, 0.051))
    assert one_target((MEDIUM_SLOT, 0.0, 0.35, math.pi))  # upside down is horizontal
    assert not one_target((LARGE_SLOT, 0.0, 0.35, 0.0))
    assert not one_target((SMALL_SLOT, 0.0, 0.35, 0.0))


def test_only_the_nearest_horizontal_block_counts():
    target = fresh_scene([(0.0, 0.35, MEDIUM, 0.7)], [])
    right = (MEDIUM_SLOT, 0.1, 0.35, 0.0)
    assert filled(with_blocks(target, [right]))[0]
    assert not filled(with_blocks(target, [right, (SMALL_SLOT, 0.0, 0.36, 0.0)]))[0]
    assert filled(with_blocks(target, [right, (SMALL_SLOT, 0.0, 0.36, 0.5)]))[0]  # a tilted one does not count


@pytest.mark.parametrize("level", NUMBERS)
def test_levels_have_the_stated_numbers_of_targets_layers_and_obstacles(level):
    targets, layers, obstacles = NUMBERS[level]
    seen, highest = set(), 0
    for seed in range(60):
        scene = TASK.generate(np.random.default_rng(seed), level)
        assert len(scene.rows(Role.TARGET)) == targets == TASK.max_steps(scene, level) == TASK.best(scene)
        seen.add(len(scene.rows(Role.OBSTACLE)))
        highest = max(highest, round((scene.pose[scene.rows(Role.TARGET), 1].max() - 0.35) / 0.70) + 1)
        assert (scene.size[scene.rows(Role.TARGET), 1] == 0.7).all()
    assert seen == set(obstacles)
    assert highest == layers


@pytest.mark.parametrize("level", [3, 7, "double_the_targets"])
def test_targets_stand_on_targets_obstacles_lie_beside_or_above_them_and_cells_keep_their_distance(level):
    for seed in range(60):
        scene = TASK.generate(np.random.default_rng(seed), level)
        left, right = scene.pose[:, 0] - scene.size[:, 0] / 2, scene.pose[:, 0] + scene.size[:, 0] / 2
        layer = ((scene.pose[:, 1] - 0.35) / 0.70).round()
        targets, obstacles = scene.rows(Role.TARGET), scene.rows(Role.OBSTACLE)

        def above(row, margin, scene=scene, left=left, right=right, layer=layer, targets=targets):
            below = targets[layer[targets] == layer[row] - 1]
            return layer[row] == 0 or bool((np.minimum(right[below], right[row]) - np.maximum(left[below], left[row]) >= margin).any())

        assert all(above(row, 0.63 - 1e-9) for row in targets)
        assert all(above(row, -0.14 - 1e-9) for row in obstacles)
        assert np.isin(scene.size[obstacles, 0], (SMALL, MEDIUM, LARGE)).all()
        for k in range(6):
            row = sorted((left[r], right[r]) for r in (*targets, *obstacles) if layer[r] == k)
            assert all(b[0] - a[1] >= 0.35 - 1e-9 for a, b in pairwise(row))


def plain_generator(rng, targets: int, layers: int, obstacles: int) -> tuple[list, list]:
    """The rules of a scene, written again from their description, piece by piece: (layer, left, right) of targets and obstacles."""
    while True:
        pieces = []
        for layer in range(1, layers + 1):
            x = rng.uniform(0, 3.85)
            while True:
                width = rng.choice([0.7, 2.1, 3.5])
                if x + width + 0.35 > 14:
                    break
                pieces.append((layer, x + 0.175, x + 0.175 + width))
                x += width + 0.35

        def draw(count, chosen, left, margin, supports):
            for _ in range(count):
                fit = [
                    p for p in left
                    if p[0] == 1 or any(t[0] == p[0] - 1 and min(t[2], p[2]) - max(t[1], p[1]) >= margin for t in supports)
                ]  # fmt: skip
                if not fit:
                    return False
                weights = [p[0] ** 1.75 for p in fit]
                piece = fit[rng.choice(len(fit), p=np.array(weights) / sum(weights))]
                left.remove(piece)
                chosen.append(piece)
            return True

        chosen, blocked, left = [], [], list(pieces)
        if draw(targets, chosen, left, 0.63, chosen) and draw(obstacles, blocked, left, -0.14, chosen):
            return chosen, blocked


def test_scenes_are_drawn_as_described():
    n, rng = 600, np.random.default_rng(5)
    ours, plain = [], []
    for _ in range(n):
        scene = TASK.generate(rng, 5)
        features = []
        for role in (Role.TARGET, Role.OBSTACLE):
            rows = scene.rows(role)
            features += [scene.pose[rows, 1].mean(), scene.size[rows, 0].mean(), scene.pose[rows, 0].mean(), scene.pose[rows, 1].max()]
        ours.append(features)
        features = []
        for pieces in plain_generator(rng, 6, 6, int(rng.integers(1, 5))):
            layer, left, right = np.array(pieces).T
            y = 0.35 + 0.7 * (layer - 1)
            features += [y.mean(), (right - left).mean(), ((left + right) / 2 - 7).mean(), y.max()]
        plain.append(features)
    error = np.sqrt((np.var(ours, axis=0) + np.var(plain, axis=0)) / n)
    assert (np.abs(np.mean(ours, axis=0) - np.mean(plain, axis=0)) < 4 * error).all()


def test_a_width_that_another_program_computed_counts_as_the_same():
    for width, same in ((3.5000000000000004, True), (3.4995, True), (3.498, False)):
        scene = with_blocks(fresh_scene([(0.0, 0.35, width, 0.7)], []), [(LARGE_SLOT, 0.0, 0.35, 0.0)])
        assert filled(scene).tolist() == [same]
