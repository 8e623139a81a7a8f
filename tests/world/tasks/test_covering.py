"""Both coverings: the score against plain unions of spans, scenes against the stated numbers."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from worlds import LARGE_SLOT, MEDIUM_SLOT, SMALL_SLOT, blocks, corners, number, obstacles, slots, with_blocks

from trilith.world.scene import Role, fresh_scene
from trilith.world.tasks import TASKS
from trilith.world.tasks.covering import covered

EITHER = [TASKS["covering"], TASKS["covering_hard"]]
ONE = fresh_scene([], [(0.0, 1.75, 2.0, 0.35)])
"""An obstacle over x from −1 to 1."""


def plainly_covered(scene) -> list[float]:
    """Cut each top at every end of a block, and add up the pieces whose middle is under some block at or above it."""
    result = []
    for o in scene.rows(Role.OBSTACLE):
        low, high = scene.pose[o, 0] - scene.size[o, 0] / 2, scene.pose[o, 0] + scene.size[o, 0] / 2
        spans = []
        for b in scene.rows(Role.BLOCK):
            assume(abs(scene.pose[b, 1] - scene.pose[o, 1]) > 1e-9)
            if scene.pose[b, 1] > scene.pose[o, 1]:
                xs = [x for x, _ in corners(scene.pose[b], scene.size[b])]
                spans.append((min(xs), max(xs)))
        cuts = sorted({low, high, *(x for span in spans for x in span if low < x < high)})
        result.append(sum(b - a for a, b in pairwise(cuts) if any(s <= (a + b) / 2 <= e for s, e in spans)))
    return result


near = st.lists(st.tuples(st.integers(0, 3), slots, number(-2, 2), number(-0.5, 1.5), number(-1.6, 1.6)), max_size=6)
"""Blocks about an obstacle: which one, the block, how far off in x, y and angle."""


@settings(max_examples=300)
@given(obstacles, blocks, near)
def test_covered_length_is_the_union_of_spans(obstacles_, anywhere, close):
    placed = anywhere + [
        (slot, obstacles_[which % len(obstacles_)][0] + dx, obstacles_[which % len(obstacles_)][1] + dy, angle)
        for which, slot, dx, dy, angle in close
    ]
    scene = with_blocks(fresh_scene([], obstacles_), placed)
    expected = plainly_covered(scene)
    np.testing.assert_allclose(covered(scene), expected, atol=1e-9)
    for task in EITHER:
        assert task.score(scene) == pytest.approx(sum(expected), abs=1e-9)
        assert task.best(scene) == pytest.approx(sum(w for _, _, w, _ in obstacles_))


@pytest.mark.parametrize(
    ("placed", "length"),
    [
        ([(LARGE_SLOT, 0.0, 3.0, 0.0)], 2.0),
        ([(LARGE_SLOT, 0.0, 1.75, 0.0)], 2.0),  # its centre is at the obstacle's: at or above
        ([(LARGE_SLOT, 0.0, 1.74, 0.0)], 0.0),  # below
        ([(SMALL_SLOT, 0.0, 3.0, 0.0)], 0.7),
        ([(SMALL_SLOT, 1.0, 3.0, 0.0)], 0.35),
        ([(SMALL_SLOT, 5.0, 3.0, 0.0)], 0.0),
        ([(SMALL_SLOT, 0.0, 3.0, 0.0), (SMALL_SLOT, 0.0, 4.0, 0.0)], 0.7),  # never counted twice
        ([(SMALL_SLOT, 0.3, 3.0, 0.0), (SMALL_SLOT, 0.0, 4.0, 0.0)], 1.0),
        ([(MEDIUM_SLOT, 0.0, 5.0, np.pi / 2)], 0.7),  # on end it covers its height
        ([(MEDIUM_SLOT, -0.9, 1.0, 0.0), (SMALL_SLOT, -0.65, 3.0, 0.0)], 0.7),  # one below hides nothing and adds nothing
    ],
)
def test_what_covers_an_obstacle(placed, length):
    assert list(covered(with_blocks(ONE, placed))) == pytest.approx([length])


@pytest.mark.parametrize("task", EITHER, ids=lambda task: task.name)
def test_more_than_99_percent_is_complete(task):
    assert task.complete(ONE, 1.9801)
    assert not task.complete(ONE, 1.98)


@pytest.mark.parametrize(
    ("name", "level", "layers", "widest"),
    [("covering", d, list(range(0, 2 * d + 1, 2)), 2.8) for d in range(3)]
    + [("covering_hard", d, list(range(d + 1)), 3.5) for d in range(2)],
)
def test_levels_are_as_stated(name, level, layers, widest):
    task = TASKS[name]
    counts, widths = set(), []
    for seed in range(300):
        scene = task.generate(np.random.default_rng(seed), level)
        found = [round((y - 0.35) / 0.70) for y in scene.pose[scene.rows(Role.OBSTACLE), 1]]
        assert sorted(set(found)) == layers
        counts |= {found.count(layer) for layer in layers}
        widths += scene.size[scene.rows(Role.OBSTACLE), 0].tolist()
        assert not len(scene.rows(Role.TARGET))
        assert task.max_steps(scene, level) == (28 if name == "covering" else 7)
    assert counts == {1, 2}
    assert 0.7 <= min(widths) < 0.75
    assert widest - 0.05 < max(widths) <= widest


def test_costs_and_supply_are_as_stated():
    assert {name: (task.sticky_cost, task.keeps_supply) for name, task in TASKS.items()} == {
        "silhouette": (0.5, True),
        "connecting": (0.0, True),
        "covering": (2.0, True),
        "covering_hard": (0.5, False),
    }
