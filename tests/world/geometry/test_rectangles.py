"""Rectangles against the same things done slowly: clipped polygons, distances corner by corner."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from worlds import angles, corners, distance, number, shared_area

from trilith.world.geometry.rectangles import TOUCH, contains, extents, gap, overlaps_any, touching

sizes = st.tuples(st.sampled_from([0.35, 0.7, 2.1, 3.5, 28.0]), st.sampled_from([0.35, 0.7]))
poses = st.tuples(number(-3, 3), number(-3, 3), angles)
rectangles = st.tuples(poses, sizes)


def arrays(rectangles_) -> tuple[np.ndarray, np.ndarray]:
    """The poses and the sizes of rectangles, read-only as those of scenes are: for others the functions would be compiled anew."""
    pose, size = np.array([p for p, _ in rectangles_], float).reshape(-1, 3), np.array([s for _, s in rectangles_], float).reshape(-1, 2)
    pose.flags.writeable = size.flags.writeable = False
    return pose, size


def overlaps(pose, size, others) -> bool:
    """Whether an upright rectangle overlaps any of others."""
    return overlaps_any(float(pose[0]), float(pose[1]), float(size[0]), float(size[1]), *arrays(others), np.ones(len(others), bool))


@settings(max_examples=400)
@given(number(-3, 3), number(-3, 3), sizes, st.lists(rectangles, max_size=3))
def test_overlap_is_shared_area(x, y, size, others):
    areas = [shared_area((x, y, 0), size, *other) for other in others]
    assume(not any(0 < area < 1e-6 for area in areas))
    assume(all(area > 0 or distance((x, y, 0), size, *other) > 1e-9 for area, other in zip(areas, others, strict=True)))
    assert overlaps((x, y, 0), size, others) == any(area > 0 for area in areas)


@settings(max_examples=100)
@given(poses, sizes, st.lists(st.tuples(rectangles, st.booleans()), max_size=5))
def test_only_the_wanted_rows_are_looked_at(pose, size, others):
    some = [rectangle for rectangle, wanted in others if wanted]
    which = np.array([wanted for _, wanted in others], bool)
    x, y, _ = pose
    assert overlaps_any(x, y, *size, *arrays([rectangle for rectangle, _ in others]), which) == overlaps(pose, size, some)


def test_rectangles_side_by_side_do_not_overlap_and_those_a_hair_closer_do():
    other = [((0, 0, 0), (2, 1))]
    assert not overlaps((2, 0, 0), (2, 1), other)
    assert overlaps((2 - 1e-9, 0, 0), (2, 1), other)
    assert not overlaps((0, 1, 0), (2, 1), other)
    assert overlaps((0, 1 - 1e-9, 0), (2, 1), other)


def test_boxes_around_tilted_rectangles_may_overlap_where_the_rectangles_do_not():
    other = [((0, 0, math.pi / 4), (3.5, 0.7))]
    assert not overlaps((1.0, -0.9, 0), (0.7, 0.7), other)
    assert overlaps((1.0, 0.9, 0), (0.7, 0.7), other)


@settings(max_examples=400)
@given(rectangles, rectangles)
def test_gap_is_the_distance_between_two_rectangles(a, b):
    area = shared_area(*a, *b)
    assume(not 0 < area < 1e-9)
    assert gap(*a[0], *a[1], *b[0], *b[1]) == pytest.approx(0.0 if area else distance(*a, *b), abs=1e-9)
    assert gap(*b[0], *b[1], *a[0], *a[1]) == pytest.approx(gap(*a[0], *a[1], *b[0], *b[1]), abs=1e-12)


@given(rectangles)
def test_the_upright_box_around_a_rectangle_reaches_to_its_corners(rectangle):
    pose, size = rectangle
    around = extents(np.array([pose]), np.array([size]))[0]
    points = np.array(corners(pose, size))
    np.testing.assert_allclose(2 * around, points.max(axis=0) - points.min(axis=0), atol=1e-9)


@settings(max_examples=300)
@given(rectangles, number(-4, 4), number(-4, 4))
def test_a_point_is_inside_when_it_is_left_of_every_side(rectangle, x, y):
    pose, size = rectangle
    ring = corners(pose, size)
    turns = [(bx - ax) * (y - ay) - (by - ay) * (x - ax) for (ax, ay), (bx, by) in zip(ring, ring[1:] + ring[:1], strict=True)]
    assume(all(abs(turn) > 1e-9 for turn in turns))
    px, py, angle = pose
    assert contains(*size, math.cos(angle), math.sin(angle), x - px, y - py) == all(turn > 0 for turn in turns)


def test_a_point_on_the_edge_is_inside():
    assert contains(2.0, 1.0, 1.0, 0.0, 1.0, 0.5)
    assert not contains(2.0, 1.0, 1.0, 0.0, 1.0 + 1e-9, 0.5)


@settings(max_examples=150)
@given(st.lists(st.tuples(rectangles, st.booleans(), st.booleans()), min_size=2, max_size=6))
def test_touching_pairs_are_those_of_solid_rows_with_a_gap_of_at_most_5_mm(rows):
    solid, wanted = (np.array(flags, bool) for flags in list(zip(*rows, strict=True))[1:])
    boxes = [rectangle for rectangle, _, _ in rows]
    expected = []
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            apart = 0.0 if shared_area(*boxes[i], *boxes[j]) else distance(*boxes[i], *boxes[j])
            assume(abs(apart - TOUCH) > 1e-9)
            if apart <= TOUCH and solid[i] and solid[j] and (wanted[i] or wanted[j]):
                expected.append([i, j])
    pose, size = arrays(boxes)
    assert touching(pose.copy(), size, solid, wanted).tolist() == expected


@pytest.mark.parametrize(("apart", "touch"), [(0.0, True), (0.0049, True), (0.0051, False), (0.015, False)])
@pytest.mark.parametrize("angle", [0.0, 0.7])
def test_five_millimetres_is_touching_and_more_is_not(apart, touch, angle):
    c, s = math.cos(angle), math.sin(angle)
    away = 0.7 + apart
    pose, size = arrays([((0, 0, angle), (0.7, 0.7)), ((c * away, s * away, angle), (0.7, 0.7))])
    pairs = touching(pose.copy(), size, np.array([True, True]), np.array([True, False]))
    assert pairs.tolist() == ([[0, 1]] if touch else [])
