"""Objects as rows of 15 numbers."""

import math

import numpy as np
import pytest
from worlds import played

from trilith.world.observations.objects import FEATURES, objects
from trilith.world.scene import FLOOR, Role, Scene, fresh_scene
from trilith.world.tasks import TASKS


def test_a_row_is_pose_size_velocity_sticky_and_type():
    base = fresh_scene([(1.0, 2.0, 0.35, 0.35)], [(3.0, 0.35, 1.5, 0.35)])
    scene = Scene(
        pose=[*base.pose, [0.5, 1.5, 0.3]],
        size=[*base.size, [2.1, 0.7]],
        velocity=[*base.velocity, [0.1, -0.2, 0.4]],
        role=[*base.role, Role.BLOCK],
        sticky=[*base.sticky, True],
        contact=base.contact,
        glue=base.glue,
        glue_frame=base.glue_frame,
    )
    rows = objects(scene)
    assert rows.shape == (len(scene), FEATURES) == (11, 15)
    assert rows.dtype == np.float32
    block = [0.5, 1.5, math.cos(0.3), math.sin(0.3), 2.1, 0.7, 0.1, -0.2, 0.4, 1, 0, 1, 0, 0, 0]
    np.testing.assert_allclose(rows[-1], block, rtol=1e-6)
    np.testing.assert_allclose(rows[0], [-6.65, -2.1, 1, 0, 0.7, 0.7, 0, 0, 0, 0, 1, 0, 0, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(rows[FLOOR], [0, -0.175, 1, 0, 28, 0.35, 0, 0, 0, 0, 0, 0, 0, 0, 1], rtol=1e-6)
    np.testing.assert_allclose(rows[8], [1, 2, 1, 0, 0.35, 0.35, 0, 0, 0, 0, 0, 0, 1, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(rows[9], [3, 0.35, 1, 0, 1.5, 0.35, 0, 0, 0, 0, 0, 0, 0, 1, 0], rtol=1e-6)


@pytest.mark.parametrize("task", TASKS)
def test_rows_are_finite_in_order_and_say_what_each_object_is(task):
    for state in played(task, "hardest", 2, careful=True):
        rows = objects(state.scene)
        assert np.isfinite(rows).all()
        assert (rows[:, 10:].sum(axis=1) == 1).all()
        assert rows[:, 10:].argmax(axis=1).tolist() == state.scene.role.tolist()
        np.testing.assert_allclose(rows[:, 2] ** 2 + rows[:, 3] ** 2, 1, rtol=1e-5)


def test_no_feature_is_always_the_same():
    rows = np.concatenate([objects(state.scene) for task in TASKS for seed in range(15) for state in played(task, "all", seed)])
    assert (rows.max(axis=0) > rows.min(axis=0)).all()


def test_writing_to_the_rows_leaves_the_scene_alone():
    scene = fresh_scene([], [(0.0, 0.35, 1.0, 0.35)])
    before = scene.tobytes()
    first = objects(scene)
    first[:] = 7
    assert scene.tobytes() == before
    assert not (objects(scene) == 7).all()
