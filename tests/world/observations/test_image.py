from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.world.observations.image import COORDINATES, GLUE_RADIUS, discs, glue_points, image, rectangles, render, shrink
from trilith.world.scene import VIEW, Placement, Role, Scene, fresh_scene, place

SEEDS = st.integers(0, 2**32 - 1)


def at(picture: np.ndarray, x: float, y: float) -> list[float]:
    """Colour of the pixel at a place in the world."""
    left, right, bottom, top = VIEW
    n = len(picture)
    return picture[int((top - y) / (top - bottom) * n), int((x - left) / (right - left) * n), :3].tolist()


def slow_render(scene: Scene, slow_mask, pixels: int) -> np.ndarray:
    """One pixel, one object at a time, each over what is there; nan where an edge is too close to call."""
    left, right, bottom, top = VIEW
    picture = np.ones((pixels, pixels, 3))

    def over(mask: np.ndarray, colour: tuple[float, ...], alpha: float = 1.0) -> None:
        for i, j in np.ndindex(pixels, pixels):
            if mask[i, j] != 0:
                picture[i, j] = (1 - alpha) * picture[i, j] + alpha * np.array(colour) if mask[i, j] == 1 else math.nan

    def all_of(role: Role, colour: tuple[float, ...], alpha: float = 1.0) -> None:
        for row in scene.rows(role):
            over(slow_mask(scene.pose[row], scene.size[row], pixels), colour, alpha)

    all_of(Role.FLOOR, (0, 0, 0))
    all_of(Role.OBSTACLE, (1, 0, 0))
    for row in range(len(scene)):
        if scene.role[row] in (Role.AVAILABLE, Role.BLOCK):
            over(slow_mask(scene.pose[row], scene.size[row], pixels), (0, 0.8, 1) if scene.sticky[row] else (0, 0, 1))
    for (first, _), (u, v, *_) in zip(scene.glue, scene.glue_frame, strict=True):
        x, y, angle = scene.pose[first]
        x, y = x + math.cos(angle) * u - math.sin(angle) * v, y + math.sin(angle) * u + math.cos(angle) * v
        disc = np.zeros((pixels, pixels))
        for i, j in np.ndindex(pixels, pixels):
            px, py = left + (j + 0.5) * (right - left) / pixels, top - (i + 0.5) * (top - bottom) / pixels
            disc[i, j] = math.hypot(px - x, py - y) <= GLUE_RADIUS
        over(disc, (0.5, 0.5, 0.5))
    for row in scene.rows(Role.TARGET):
        silhouette = scene.size[row, 1] > 0.5
        over(slow_mask(scene.pose[row], scene.size[row], pixels), (0, 1, 0) if silhouette else (0, 0, 1), 0.3 if silhouette else 0.5)
    return picture


@settings(max_examples=12, deadline=None)
@given(seed=SEEDS)
def test_render_equals_drawing_pixel_by_pixel(random_scene, slow_mask, seed):
    scene = random_scene(seed, 10)
    slow = slow_render(scene, slow_mask, 32)
    clear = ~np.isnan(slow)
    assert clear.mean() > 0.9
    np.testing.assert_allclose(render(scene, 32)[clear], slow[clear], atol=1e-6)


def test_render_at_full_size_equals_drawing_pixel_by_pixel(random_scene, slow_mask):
    scene = random_scene(3, 8)
    assert len(scene.glue)
    assert scene.sticky.any()
    assert len(scene.rows(Role.TARGET))
    slow = slow_render(scene, slow_mask, 128)
    clear = ~np.isnan(slow)
    np.testing.assert_allclose(render(scene)[clear], slow[clear], atol=1e-6)


@settings(max_examples=50, deadline=None)
@given(
    x=st.floats(-12, 12), y=st.floats(-8, 18), angle=st.floats(-10, 10),
    w=st.floats(0.01, 28), h=st.floats(0.01, 5), align=st.sampled_from([1, 2, 4]),
)  # fmt: skip
def test_a_window_holds_the_whole_rectangle_and_is_aligned(slow_mask, x, y, angle, w, h, align):
    pose, size = np.array([[x, y, angle]]), np.array([[w, h]])
    (window,) = rectangles(pose, size, 32, align)
    assert window.top % align == window.bottom % align == window.left % align == window.right % align == 0
    assert window.cover.shape == (window.bottom - window.top, window.right - window.left)
    full = np.zeros((32, 32))
    full[window.top : window.bottom, window.left : window.right] = window.cover
    slow = slow_mask(pose[0], size[0], 32)
    clear = ~np.isnan(slow)
    assert np.array_equal(full[clear], slow[clear])


def test_a_pixel_whose_centre_is_on_the_edge_is_inside():
    # Pixels of a picture of 16 are 1 m wide, with centres at halves.
    (window,) = rectangles(np.array([[0.0, 0.0, 0.0]]), np.array([[3.0, 1.0]]), 16)
    assert window.cover.shape == (2, 4)
    assert window.cover.all()


def test_a_disc_is_round():
    (window,) = discs(np.array([[0.0, 5.0]]), 1.0, 640)
    assert window.cover.sum() * (16 / 640) ** 2 == pytest.approx(math.pi, rel=0.01)


def test_shrinking_a_window_averages_blocks_of_pixels(random_scene):
    scene = random_scene(1)
    for factor in (2, 3, 4):
        for window in rectangles(scene.pose, scene.size, 96, factor):
            small = shrink(window, factor)
            full = np.zeros((96, 96))
            full[window.top : window.bottom, window.left : window.right] = window.cover
            means = full.reshape(96 // factor, factor, 96 // factor, factor).mean(axis=(1, 3))
            again = np.zeros_like(means)
            again[small.top : small.bottom, small.left : small.right] = small.cover
            np.testing.assert_allclose(again, means, atol=1e-7)


def test_colours_are_those_of_the_paper():
    scene = fresh_scene([(-5, 3, 2.1, 0.7), (-2, 3, 0.35, 0.35)], [(1, 3, 2, 0.35)])
    scene = place(scene, Placement(6, 4, 3, False), keep=True)
    scene = place(scene, Placement(6, 4, 6, True), keep=True)
    picture = render(scene)
    assert at(picture, 0, 10) == [1, 1, 1]
    assert at(picture, 0, -0.1) == [0, 0, 0]
    assert at(picture, 1, 3) == [1, 0, 0]
    assert at(picture, 4, 3) == [0, 0, 1]
    assert at(picture, 4, 6) == pytest.approx([0, 0.8, 1])
    assert at(picture, -5, 3) == pytest.approx([0.7, 1, 0.7])
    assert at(picture, -2, 3) == pytest.approx([0.5, 0.5, 1])
    assert at(picture, scene.pose[6, 0], scene.pose[6, 1]) == [0, 0, 1], "available blocks are shown, below the floor"


def test_targets_are_seen_over_blocks_and_blocks_over_obstacles():
    scene = fresh_scene([(0, 3, 2.1, 0.7)], [(3, 3, 2, 0.35)])
    scene = place(scene, Placement(6, 1, 3, False), keep=True)
    picture = render(scene)
    assert at(picture, 0.5, 3) == pytest.approx([0, 0.3, 0.7])
    assert at(picture, 2.5, 3) == [0, 0, 1]
    assert at(picture, 3.5, 3) == [1, 0, 0]


def test_glue_points_are_grey_and_turn_with_their_block():
    scene = place(fresh_scene([], []), Placement(5, 0, 3, True), keep=True)
    pose = scene.pose.copy()
    pose[-1] = (0, 3, math.pi / 2)
    scene = replace(scene, pose=pose, glue=np.array([[8, 9]]), glue_frame=np.array([[1.0, 0.35, 0, 0, 0]]))
    np.testing.assert_allclose(glue_points(scene), [[-0.35, 4.0]], atol=1e-12)
    assert at(render(scene), -0.35, 4.0) == [0.5, 0.5, 0.5]


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_image_is_the_mean_of_the_render_and_coordinates(random_scene, seed):
    scene = random_scene(seed)
    pixels = image(scene)
    assert pixels.shape == (64, 64, 5)
    assert pixels.dtype == np.float32
    assert pixels[..., :3].min() >= 0
    assert pixels[..., :3].max() <= 1
    np.testing.assert_allclose(pixels[..., :3], render(scene).reshape(64, 2, 64, 2, 3).mean(axis=(1, 3)), atol=1e-6)
    assert np.array_equal(pixels[..., 3:], COORDINATES)


def test_coordinates_rise_to_the_right_and_upwards_from_exactly_minus_one_to_one():
    assert COORDINATES[0, 0].tolist() == [-1, 1]
    assert COORDINATES[-1, -1].tolist() == [1, -1]
    assert (np.diff(COORDINATES[..., 0], axis=1) > 0).all()
    assert (np.diff(COORDINATES[..., 0], axis=0) == 0).all()
    assert (np.diff(COORDINATES[..., 1], axis=0) < 0).all()
    assert (np.diff(COORDINATES[..., 1], axis=1) == 0).all()
    assert not COORDINATES.flags.writeable


def test_an_image_is_the_callers_own():
    scene = fresh_scene([(0, 3, 2.1, 0.7)], [])
    before = image(scene)
    image(scene)[:] = 7
    assert np.array_equal(image(scene), before)


def test_drawing_needs_no_plotting_library():
    program = (
        "import sys; from trilith.world.observations.segments import segments; from trilith.world.scene import fresh_scene;"
        "import trilith.render.pictures;"
        "segments(fresh_scene([], [])); trilith.render.pictures.picture(fresh_scene([], []));"
        "print([m for m in ('matplotlib', 'PIL', 'imageio', 'imageio_ffmpeg') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
