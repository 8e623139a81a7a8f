from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.world.observations.image import COORDINATES, image
from trilith.world.observations.segments import segments
from trilith.world.scene import FLOOR, Placement, fresh_scene, place


def test_masks_equal_pixel_by_pixel_masks_averaged(random_scene, slow_mask):
    scene = random_scene(5, 10)
    rows = segments(scene)
    for row in [0, FLOOR, *range(FLOOR + 1, len(scene))]:
        slow = slow_mask(scene.pose[row], scene.size[row], 128).reshape(64, 2, 64, 2).mean(axis=(1, 3))
        clear = ~np.isnan(slow)
        np.testing.assert_allclose(rows[row, ..., 3][clear], slow[clear], atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(0, 30))
def test_each_row_is_the_image_through_its_mask(random_scene, seed, size):
    scene = random_scene(seed, size)
    rows = segments(scene)
    seen = image(scene)
    assert rows.shape == (len(scene), 64, 64, 6)
    assert rows.dtype == np.float32
    alpha = rows[..., 3:4]
    assert alpha.min() >= 0
    assert alpha.max() <= 1
    np.testing.assert_allclose(rows[..., :3], alpha * seen[None, ..., :3], atol=1e-6)
    assert np.array_equal(rows[..., 4:], np.broadcast_to(COORDINATES, (len(scene), 64, 64, 2)))


def test_a_pixel_may_belong_to_several_objects():
    scene = fresh_scene([(0, 3, 2.1, 0.7)], [])
    scene = place(scene, Placement(3, 0, 3, False), keep=True)
    target, block = segments(scene)[[FLOOR + 1, FLOOR + 2]]
    assert np.array_equal(target, block), "a block that fills its target shows the same pixels"
    assert target[..., 3].sum() == pytest.approx(2.1 * 0.7 * 16, rel=0.15)
    inside = target[40, 32]  # row 40 is y = 13 - 40.5 / 4 = 2.875
    assert inside[:4].tolist() == pytest.approx([0, 0.3, 0.7, 1]), "blue block seen through the green target"


def test_an_object_out_of_view_has_an_empty_mask():
    scene = place(fresh_scene([], []), Placement(0, 0, 15, False), keep=True)
    assert not segments(scene)[-1, ..., :4].any()
