"""A scene is a value: read-only, comparable, and the same after any way of storing it."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from worlds import EMPTY, FIRST, blocks, build, obstacles, played, silhouette_targets, with_blocks

from trilith.world.scene import FLOOR, SLOT_WIDTHS, SLOT_X, SLOTS, Placement, Role, Scene, fresh_scene, place

ARRAYS = ("pose", "size", "velocity", "role", "sticky", "contact", "glue", "glue_frame")
GLUED = build(Placement(3, 0.0, 0.4, True), Placement(0, 0.5, 1.1), Placement(6, -3.0, 0.5))


def test_a_fresh_scene_has_seven_available_blocks_in_a_line_then_the_floor_targets_and_obstacles():
    scene = fresh_scene([(1.0, 2.0, 0.35, 0.35)], [(3.0, 0.35, 1.5, 0.35), (-3.0, 0.35, 1.0, 0.35)])
    assert scene.role.tolist() == [0] * 7 + [Role.FLOOR, Role.TARGET, Role.OBSTACLE, Role.OBSTACLE]
    assert scene.size[:SLOTS].tolist() == [[w, 0.7] for w in (0.7, 0.7, 0.7, 2.1, 2.1, 2.1, 3.5)]
    assert (scene.pose[:SLOTS, 1] == -2.1).all()
    left, right = scene.pose[:SLOTS, 0] - scene.size[:SLOTS, 0] / 2, scene.pose[:SLOTS, 0] + scene.size[:SLOTS, 0] / 2
    assert left[0] == pytest.approx(-7)
    assert right[-1] == pytest.approx(7)
    np.testing.assert_allclose(left[1:] - right[:-1], 0.35)
    assert scene.pose[FLOOR].tolist() == [0.0, -0.175, 0.0]
    assert scene.size[FLOOR].tolist() == [28.0, 0.35]
    assert scene.pose[8:, :2].tolist() == [[1.0, 2.0], [3.0, 0.35], [-3.0, 0.35]]
    assert not scene.velocity.any()
    assert not scene.sticky.any()


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("scene", [EMPTY, GLUED, place(EMPTY, Placement(2, 1, 1), keep=False)], ids=["empty", "built", "placed"])
def test_no_array_of_a_scene_can_be_written_to(scene, name):
    array = getattr(scene, name)
    assert not array.flags.writeable
    if array.size:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[0]


def test_a_scene_of_arrays_that_can_be_written_to_cannot_itself():
    pose = EMPTY.pose.copy()
    scene = Scene(pose, *(getattr(EMPTY, name) for name in ARRAYS[1:]))
    assert not scene.pose.flags.writeable
    assert scene == EMPTY


@pytest.mark.parametrize("name", ["pose", "size", "glue_frame"])
def test_arrays_of_another_shape_are_refused(name):
    arrays = {each: getattr(GLUED, each) for each in ARRAYS}
    arrays[name] = arrays[name].T.copy()
    with pytest.raises(ValueError, match=name):
        Scene(**arrays)


def test_scenes_are_equal_when_their_bytes_are():
    assert build(Placement(0, 0, 0.4)) == build(Placement(0, 0, 0.4))
    assert hash(build(Placement(0, 0, 0.4))) == hash(build(Placement(0, 0, 0.4)))
    assert build(Placement(0, 0, 0.4)) != build(Placement(1, 0, 0.5))
    assert EMPTY != "scene"


@pytest.mark.parametrize("task", ["silhouette", "connecting", "covering", "covering_hard"])
def test_scenes_survive_json_text_and_pickle_unchanged(task):
    for seed in range(5):
        for scene in (state.scene for state in played(task, "all", seed)):
            assert Scene.from_json(json.loads(json.dumps(scene.to_json()))) == scene
            again = pickle.loads(pickle.dumps(scene))
            assert again == scene
            assert not any(getattr(again, name).flags.writeable for name in ARRAYS)


@given(silhouette_targets, obstacles, blocks)
def test_any_scene_survives_json_text(targets, obstacles_, blocks_):
    scene = with_blocks(fresh_scene(targets, obstacles_), blocks_)
    assert Scene.from_json(json.loads(json.dumps(scene.to_json(), allow_nan=False))) == scene


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("pose", None, "'pose' is not an array"),
        ("pose", [[0, 0, 0]], "'pose' has 1 rows where 'role' has 11"),
        ("pose", [[0, 0]] * 11, r"'pose' has shape \(11, 2\)"),
        ("pose", [[0, 0, "1.0"]] * 11, "'pose' is not an array"),
        ("pose", [[0, 0, float("nan")]] * 11, "'pose' has a number that is not finite"),
        ("pose", [[0, 1e5, 0]] * 11, "'pose' or 'velocity'"),
        ("velocity", [[0, 0, float("inf")]] * 11, "'velocity' has a number that is not finite"),
        ("size", [[1, 1], [2]], "'size' is not an array"),
        ("size", [[0.7, 0.0]] * 11, "'size'"),
        ("size", [[0.7, 0.9]] * 11, "available"),
        ("role", [0.5] * 11, "'role' is not an array of int64"),
        ("role", [float("nan")] * 11, "'role' is not an array of int64"),
        ("role", [10**30] * 11, "'role' is not an array of int64"),
        ("role", [0] * 7 + [4, 9, 1, 1], "'role' has a value outside 0 to 4"),
        ("role", [0] * 8 + [4, 1, 1], "row 7"),
        ("role", [0] * 7 + [4, 4, 1, 1], "row 7"),
        ("role", [3] * 7 + [4, 1, 1, 1], "available"),
        ("role", [0] * 7 + [4, 1, 0, 1], "available"),
        ("sticky", [2] * 11, "'sticky' is not an array of bool"),
        ("contact", [[8, 7]], "'contact' has a pair"),
        ("contact", [[7, 11]], "'contact' has a pair"),
        ("glue", [[-1, 8]], "'glue' has a pair"),
        ("glue", [[0, 8], [7, 8]], "'glue' has a pair that is not of blocks"),
        ("glue", [[7, 8]], "'glue_frame'"),
    ],
)
def test_json_that_is_no_scene_is_refused_by_the_name_of_the_field(field, value, message):
    with pytest.raises(ValueError, match=message):
        Scene.from_json(GLUED.to_json() | {field: value})


def test_json_without_a_field_or_that_is_no_object_is_refused():
    data = GLUED.to_json()
    del data["glue"]
    with pytest.raises(ValueError, match="no field 'glue'"):
        Scene.from_json(data)
    with pytest.raises(ValueError, match="not list"):
        Scene.from_json([])


def test_a_placed_block_is_a_new_row_where_the_supply_stays():
    scene = place(GLUED, Placement(4, 1.5, 3.0, True), keep=True)
    assert len(scene) == len(GLUED) + 1
    assert scene.pose[-1].tolist() == [1.5, 3.0, 0.0]
    assert scene.size[-1].tolist() == [2.1, 0.7]
    assert scene.role[-1] == Role.BLOCK
    assert scene.sticky[-1]
    for name in ("pose", "size", "velocity", "role", "sticky"):
        assert np.array_equal(getattr(scene, name)[:-1], getattr(GLUED, name))
    for name in ("contact", "glue", "glue_frame"):
        assert np.array_equal(getattr(scene, name), getattr(GLUED, name))


def test_a_placed_block_takes_its_own_row_where_the_supply_does_not_stay():
    scene = place(EMPTY, Placement(4, 1.5, 3.0, True), keep=False)
    assert len(scene) == len(EMPTY)
    assert scene.role.tolist() == [0, 0, 0, 0, Role.BLOCK, 0, 0, Role.FLOOR]
    assert scene.pose[4].tolist() == [1.5, 3.0, 0.0]
    assert scene.sticky.tolist() == [row == 4 for row in range(8)]
    assert EMPTY.role[4] == Role.AVAILABLE  # the scene it came from is as it was


@pytest.mark.parametrize(("x", "y", "there"), [(9, 20, (7.5, 15.0)), (-9, -1, (-7.5, 0.0)), (1e300, 3, (7.5, 3.0)), (7.5, 15, (7.5, 15.0))])
@pytest.mark.parametrize("keep", [True, False])
def test_placements_out_of_range_are_clipped(x, y, there, keep):
    assert tuple(place(EMPTY, Placement(0, x, y), keep).pose[FIRST if keep else 0, :2]) == there


def test_slots_lie_where_the_available_blocks_do():
    np.testing.assert_array_equal(SLOT_X, EMPTY.pose[:SLOTS, 0])
    assert tuple(EMPTY.size[:SLOTS, 0]) == SLOT_WIDTHS
