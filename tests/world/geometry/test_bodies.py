"""Drop, rigid groups, statics and coverage, in scenes whose answers are known."""

import numpy as np
import pytest

from trilith.world.geometry.coverage import covered_lengths, covered_pieces
from trilith.world.geometry.drop import LEVEL, drop
from trilith.world.geometry.rectangles import boxes
from trilith.world.geometry.rigid_groups import bond_matrix, glued_groups, rigid_groups
from trilith.world.geometry.statics import is_stable

FLOOR = (0.0, -0.175, 28.0, 0.35)


def rows(*rectangles: tuple[float, float, float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Poses and sizes of upright rectangles (x, y, width, height)."""
    table = np.array(rectangles)
    return np.column_stack([table[:, :2], np.zeros(len(table))]), table[:, 2:].copy()


@pytest.mark.parametrize(
    ("x", "ground", "left", "right", "on_sticky", "on_obstacle"),
    [
        (-5.0, 0.0, -5.35, -4.65, 0, 0),  # the floor
        (0.2, 0.7, -0.15, 0.35, 1, 0),  # partly on a sticky block
        (0.6, 0.75, 0.25, 0.95, 1, 0),  # across two blocks about as high
        (3.0, 0.5, 2.65, 3.35, 0, 1),  # an obstacle
    ],
)
def test_a_block_falls_to_the_highest_object_below(x, ground, left, right, on_sticky, on_obstacle):
    pose, size = rows(FLOOR, (0.0, 0.35, 0.7, 0.7), (1.05, 0.4, 0.7, 0.7), (3.0, 0.325, 1.0, 0.35))
    sticky, obstacle = np.array([False, True, False, False]), np.array([False, False, False, True])
    found = drop(x - 0.35, x + 0.35, 2.0, 2.7, boxes(pose, size), sticky, obstacle, 0.02)
    assert found[:5] == pytest.approx((ground, left, right, on_sticky, on_obstacle))
    assert found[5] == pytest.approx(abs(x - 3.0) - 0.85 if ground < 0.5 + 0.02 else np.inf)


def test_a_rigid_group_is_named_by_its_first_row():
    bonded = np.zeros((6, 6), dtype=bool)
    for i, j in ((1, 4), (4, 3), (5, 2)):
        bonded[i, j] = True
    assert rigid_groups(bonded).tolist() == [0, 1, 2, 1, 1, 2]


def test_groups_of_pairs_are_those_of_their_matrix():
    rng = np.random.default_rng(0)
    for count in range(12):
        pairs = np.array([sorted(rng.choice(10, 2, replace=False)) for _ in range(count)], dtype=np.int64).reshape(-1, 2)
        assert glued_groups(pairs, 10).tolist() == rigid_groups(bond_matrix(pairs, 10)).tolist()


def test_a_beam_stands_while_its_middle_is_over_its_support_and_for_as_much_as_is_asked():
    for x, margin, stands in ((0.3, 0.0, True), (0.4, 0.0, False), (0.3, 0.1, False), (0.4, -0.1, True)):
        pose, size = rows(FLOOR, (0.0, 0.35, 0.7, 0.7), (x, 1.05 + LEVEL / 2, 2.1, 0.7))
        loose = np.zeros(3, dtype=bool)
        assert is_stable(pose, size, loose, np.zeros((3, 3), dtype=bool), margin) is stands


def test_a_lever_hands_its_load_to_the_supports_on_either_side():
    """A weight above the gap between two columns loads both; far to one side it tips the column there."""
    columns = [(-1.0, 0.35, 0.7, 0.7), (1.0, 0.35, 0.7, 0.7), (0.0, 1.05, 3.5, 0.7)]
    nothing = np.zeros((5, 5), dtype=bool)
    for x, stands in ((0.0, True), (1.2, True), (1.75, True), (2.6, False)):
        pose, size = rows(FLOOR, *columns, (x, 1.75, 3.5, 0.7))
        assert is_stable(pose, size, nothing[0], nothing) is stands


def test_pieces_of_coverage_do_not_overlap_and_sum_to_its_length():
    pose, size = rows((0.0, 0.35, 4.0, 0.35), (-1.5, 1.0, 2.1, 0.7), (-0.5, 2.0, 2.1, 0.7), (1.9, 1.0, 0.7, 0.7), (1.0, 0.1, 0.7, 0.7))
    blocks, obstacles = np.arange(1, 5), np.array([0])
    pieces = covered_pieces(pose, size, blocks, obstacles)
    assert pieces == pytest.approx(np.array([[0, -2.0, -0.45], [0, -0.45, 0.55], [0, 1.55, 2.0]]))
    assert covered_lengths(pose, size, blocks, obstacles) == pytest.approx([3.0])
