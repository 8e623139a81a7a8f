"""Connecting: its score against points in polygons, its scenes against the table of levels."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from worlds import SMALL_SLOT, blocks, connecting_targets, corners, number, slots, with_blocks

from trilith.world.scene import Role, fresh_scene
from trilith.world.tasks import TASKS
from trilith.world.tasks.connecting import reached
from trilith.world.tasks.task import spread

TASK = TASKS["connecting"]
LEVELS = {
    0: ((), (0, 0), [0, 0, 0], 7),
    1: ((), (0, 0), [1, 1, 1], 7),
    2: ((0,), (1, 1), [1, 1, 1], 7),
    3: ((0,), (1, 2), [1, 1, 1], 7),
    4: ((0,), (2, 3), [1, 1, 1], 7),
    5: ((0,), (2, 3), [2, 2, 2], 14),
    6: ((0,), (3, 3), [3, 3, 3], 21),
    7: ((0, 2), (3, 3), [3, 3, 3], 21),
    8: ((0, 2), (3, 3), [4, 4, 4], 21),
    9: ((0, 2, 4), (3, 3), [5, 5, 5], 21),
    "mixed_height_targets": ((0, 2, 4), (3, 3), [1, 3, 5], 26),
    "additional_layer": ((0, 2, 4, 6), (3, 3), [7, 7, 7], 26),
}
"""Layers of obstacles, fewest and most in a layer, layer of each target, step limit."""


def layers(scene, role) -> list[int]:
    return [round((y - 0.35) / 0.70) for y in scene.pose[scene.rows(role), 1]]


@pytest.mark.parametrize("level", LEVELS)
def test_levels_are_as_in_the_table(level):
    obstacle_layers, (fewest, most), target_layers, limit = LEVELS[level]
    counts = set()
    for seed in range(60):
        scene = TASK.generate(np.random.default_rng(seed), level)
        found = layers(scene, Role.OBSTACLE)
        assert set(found) == set(obstacle_layers)
        counts |= {found.count(layer) for layer in obstacle_layers}
        assert layers(scene, Role.TARGET) == target_layers
        assert (scene.size[scene.rows(Role.TARGET)] == 0.35).all()
        assert TASK.max_steps(scene, level) == limit
        assert TASK.best(scene) == 3.0
        assert not any(layer in obstacle_layers for layer in target_layers)
    assert counts == (set(range(fewest, most + 1)) if obstacle_layers else set())


def test_obstacles_leave_a_way_through_and_their_widths_vary():
    widths, gaps, ends = [], [], []
    for seed in range(200):
        scene = TASK.generate(np.random.default_rng(seed), 9)
        rows = scene.rows(Role.OBSTACLE)
        for layer in (0, 2, 4):
            here = sorted(
                (scene.pose[r, 0] - scene.size[r, 0] / 2, scene.pose[r, 0] + scene.size[r, 0] / 2)
                for r in rows
                if round((scene.pose[r, 1] - 0.35) / 0.7) == layer
            )
            gaps += [b[0] - a[1] for a, b in pairwise(here)]
            ends += [here[0][0] + 7, 7 - here[-1][1]]
        widths += scene.size[rows, 0].tolist()
    assert min(gaps) >= 1.4 - 1e-9
    assert 0 <= min(ends) < 0.2  # at the ends there is no least distance
    assert 0.7 <= min(widths) < 0.75
    assert 2.75 < max(widths) <= 2.8
    assert np.mean(widths) == pytest.approx(1.75, abs=4 * 2.1 / 12**0.5 / len(widths) ** 0.5)


def test_targets_are_spread_as_obstacles_are_with_no_least_distance():
    n = 2000
    rng = np.random.default_rng(3)
    x = np.array([np.sort(TASK.generate(rng, 0).pose[8:11, 0]) for _ in range(n)])
    gaps = np.diff(np.column_stack([np.full(n, -7), x - 0.175, np.full(n, 7)])[:, [0, 1]], axis=1)[:, 0]
    share = rng.random((n, 4))
    expected = (14 - 3 * 0.35) * share[:, 0] / share.sum(axis=1)
    error = np.sqrt((gaps.var() + expected.var()) / n)
    assert gaps.mean() == pytest.approx(expected.mean(), abs=4 * error)
    assert np.mean(gaps**2) == pytest.approx(np.mean(expected**2), rel=0.1)
    assert np.diff(x, axis=1).min() < 0.5


def plainly_reached(scene) -> list[bool]:
    """A target is reached when its centre lies on the inner side of all four sides of some block."""
    result = []
    for t in scene.rows(Role.TARGET):
        x, y, _ = scene.pose[t]
        found = False
        for b in scene.rows(Role.BLOCK):
            ring = corners(scene.pose[b], scene.size[b])
            turns = [(bx - ax) * (y - ay) - (by - ay) * (x - ax) for (ax, ay), (bx, by) in zip(ring, ring[1:] + ring[:1], strict=True)]
            assume(all(abs(turn) > 1e-9 for turn in turns))
            found = found or all(turn > 0 for turn in turns)
        result.append(found)
    return result


near = st.lists(st.tuples(st.integers(0, 4), slots, number(-2, 2), number(-0.6, 0.6), number(-1, 1)), max_size=4)
"""Blocks about a target: which one, the block, how far off in x, y and angle."""


@settings(max_examples=300)
@given(connecting_targets, blocks, near)
def test_targets_are_reached_as_the_rule_says(targets, anywhere, close):
    placed = anywhere + [
        (slot, targets[which % len(targets)][0] + dx, targets[which % len(targets)][1] + dy, angle) for which, slot, dx, dy, angle in close
    ]
    scene = with_blocks(fresh_scene(targets, []), placed)
    expected = plainly_reached(scene)
    assert list(reached(scene)) == expected
    assert TASK.score(scene) == sum(expected)


def test_two_blocks_on_one_target_earn_it_once():
    scene = with_blocks(fresh_scene([(0.0, 1.0, 0.35, 0.35)] * 3, []), [(SMALL_SLOT, 0.1, 1.0, 0.0), (SMALL_SLOT, -0.1, 1.0, 0.0)])
    assert TASK.score(scene) == 3.0
    assert TASK.complete(scene, 3.0)
    assert not TASK.complete(scene, 2.0)


def test_objects_that_cannot_be_that_far_apart_are_refused():
    with pytest.raises(ValueError, match=r"3 objects with gaps of 5\.0 m do not fit"):
        spread(np.random.default_rng(0), [2.0, 2.0, 2.0], min_gap=5.0)
