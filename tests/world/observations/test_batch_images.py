"""The compiled rasteriser draws what the plain one draws."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.world.observations.batch_images import images, windows
from trilith.world.observations.image import PIXELS, glue_points, image
from trilith.world.observations.segments import segments
from trilith.world.scene import FLOOR, SLOTS, Scene, fresh_scene


def arrays_of(scene: Scene) -> list[np.ndarray]:
    """What the rasteriser is given of a scene whose blocks are all available, in double precision here, so that it can be exact."""
    rows, points = slice(FLOOR, None), glue_points(scene)
    objects = [np.ascontiguousarray(each[rows])[None] for each in (scene.pose, scene.size, scene.role, scene.sticky.astype(np.float32))]
    counts = [np.array([n]) for n in (len(scene) - SLOTS, len(points))]
    return [np.ones((1, SLOTS), dtype=bool), counts[0], *objects, points[None], counts[1]]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_images_are_those_of_the_plain_rasteriser(random_scene, seed):
    """Given the same numbers: shapes at any angle, out of view, and under each other."""
    scene = random_scene(seed)
    [found] = images(*arrays_of(scene))
    np.testing.assert_array_equal(found, image(scene)[..., :3])


def shown(scene: Scene, tight: bool) -> np.ndarray:
    """(N, 64, 64, 4): windows where they belong, and 0 around them."""
    boxes, first, pixels = windows(*arrays_of(scene), tight)
    out = np.zeros((len(scene), PIXELS, PIXELS, 4), np.float32)
    for picture, (top, bottom, left, right), begin in zip(out, boxes.tolist(), first.tolist(), strict=True):
        height, width = bottom - top, right - left
        picture[top:bottom, left:right] = pixels[begin : begin + height * width].reshape(height, width, 4)
    return out


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), tight=st.booleans())
def test_windows_show_what_segments_do(random_scene, seed, tight):
    scene = random_scene(seed)
    np.testing.assert_allclose(shown(scene, tight), segments(scene)[..., :4], atol=1e-6)


def test_windows_of_what_has_no_pixel_are_empty():
    """Above the picture, beside it, and thinner than the space between two rows of pixels."""
    scene = fresh_scene([(0, 40, 1.4, 0.7), (-30, 5, 1.4, 0.7), (3, 5.1, 1.4, 0.01)], [])
    boxes, _, _ = windows(*arrays_of(scene), True)
    assert (boxes[-3:] == 0).all()
    assert (boxes[:-3, 1::2] > boxes[:-3, ::2]).all()
    for tight in (False, True):
        found = shown(scene, tight)
        assert not found[-3:].any()
        np.testing.assert_allclose(found, segments(scene)[..., :4], atol=1e-6)
