"""Rectangles against the same things done slowly: clipped polygons, distances corner by corner."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from worlds import angles, corners, distance, number, shared_area

from trilith.geometry import TOUCH, Rects, contains, extents, gap, overlaps_any, touching

sizes = st.tuples(st.sampled_from([0.35, 0.7, 2.1, 3.5, 28.0]), st.sampled_from([0.35, 0.7]))
poses = st.tuples(number(-3, 3), number(-3, 3), angles)
rectangles = st.tuples(poses, sizes)


def overlaps(pose, size, others) -> bool:
    """`overlaps_any` for one upright rectangle."""
    pose, size = np.asarray(pose, float), np.asarray(size, float)
    rects = Rects.of(np.array([p for p, _ in others], float).reshape(-1, 3), np.array([s for _, s in others], float).reshape(-1, 2))
    return bool(overlaps_any(pose[None, :1], pose[1:2], size[:1], float(size[1]), rects)[0, 0])


@settings(max_examples=400)
@given(number(-3, 3), number(-3, 3), sizes, st.lists(rectangles, max_size=3))
def test_overlap_is_shared_area(x, y, size, others):
    areas = [shared_area((x, y, 0), size, *other) for other in others]
    assume(not any(0 < area < 1e-6 for area in areas))
    assume(all(area > 0 or distance((x, y, 0), size, *other) > 1e-9 for area, other in zip(areas, others, strict=True)))
    assert overlaps((x, y, 0), size, others) == any(area > 0 for area in areas)


@settings(max_examples=100)
@given(st.lists(st.tuples(number(-3, 3), sizes), min_size=1, max_size=4), number(-3, 3), st.lists(rectangles, max_size=4))
def test_many_rectangles_at_once_overlap_as_each_alone(rows, step, others):
    x = np.array([[k * step for k in range(3)] for _ in rows])
    y, w = np.array([y for y, _ in rows]), np.array([size[0] for _, size in rows])
    rects = Rects.of(np.array([p for p, _ in others]).reshape(-1, 3), np.array([s for _, s in others]).reshape(-1, 2))
    together = overlaps_any(x, y, w, 0.7, rects)
    assert together.shape == x.shape
    for k, i in np.ndindex(x.shape):
        assert together[k, i] == overlaps((x[k, i], y[k], 0), (w[k], 0.7), others)


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


@settings(max_examples=200)
@given(rectangles, st.lists(st.tuples(number(-4, 4), number(-4, 4)), min_size=1, max_size=5))
def test_a_point_is_inside_when_it_is_left_of_every_side(rectangle, points):
    pose, size = rectangle
    inside = contains(Rects.of(np.array([pose]), np.array([size])), np.array(points))
    assert inside.shape == (len(points), 1)
    ring = corners(pose, size)
    for (x, y), is_inside in zip(points, inside[:, 0], strict=True):
        turns = [(bx - ax) * (y - ay) - (by - ay) * (x - ax) for (ax, ay), (bx, by) in zip(ring, ring[1:] + ring[:1], strict=True)]
        assume(all(abs(turn) > 1e-9 for turn in turns))
        assert is_inside == all(turn > 0 for turn in turns)


@settings(max_examples=150)
@given(st.lists(rectangles, min_size=2, max_size=6), st.lists(st.booleans(), min_size=6, max_size=6))
def test_touching_pairs_are_those_with_a_gap_of_at_most_5_mm(rows, wanted):
    pose, size = np.array([p for p, _ in rows]), np.array([s for _, s in rows])
    wanted = np.array(wanted[: len(rows)])
    expected = []
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            apart = 0.0 if shared_area(*rows[i], *rows[j]) else distance(*rows[i], *rows[j])
            assume(abs(apart - TOUCH) > 1e-9)
            if apart <= TOUCH and (wanted[i] or wanted[j]):
                expected.append((i, j))
    assert touching(Rects.of(pose, size), wanted) == expected


@pytest.mark.parametrize(("apart", "touch"), [(0.0, True), (0.0049, True), (0.0051, False), (0.015, False)])
@pytest.mark.parametrize("angle", [0.0, 0.7])
def test_five_millimetres_is_touching_and_more_is_not(apart, touch, angle):
    c, s = math.cos(angle), math.sin(angle)
    away = 0.7 + apart
    pose = np.array([[0, 0, angle], [c * away, s * away, angle]])
    assert (touching(Rects.of(pose, np.full((2, 2), 0.7)), np.array([True, False])) == [(0, 1)]) == touch
