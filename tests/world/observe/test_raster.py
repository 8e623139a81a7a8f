"""The compiled rasteriser draws what the plain one draws."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.world.observe.image import glue_points, image
from trilith.world.observe.raster import images
from trilith.world.scene import FLOOR, SLOTS


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_images_are_those_of_the_plain_rasteriser(random_scene, seed):
    """Given the same numbers, in double precision here: shapes at any angle, out of view, and under each other."""
    scene = random_scene(seed)
    rows, points = slice(FLOOR, None), glue_points(scene)
    objects = [np.ascontiguousarray(each[rows])[None] for each in (scene.pose, scene.size, scene.role, scene.sticky.astype(np.float32))]
    counts = [np.array([n]) for n in (len(scene) - SLOTS, len(points))]
    [found] = images(np.ones((1, SLOTS), dtype=bool), counts[0], *objects, points[None], counts[1])
    np.testing.assert_array_equal(found, image(scene)[..., :3])
