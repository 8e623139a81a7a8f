"""Records keep what a scene is, and the mask is the one of the rules."""

import numpy as np
import pytest
import torch
from networks.scenes import states

from trilith.agents.dqn.policy import observe
from trilith.networks.inputs.scene_batch import KIND_OF_SLOT, ReplaySchema, SceneBatch, SceneSchema, once_per_batch
from trilith.networks.q.objects import ObjectsNet
from trilith.world.actions import DiscreteRelative, DiscreteRelativeXY, reference_rows
from trilith.world.episode import start, step
from trilith.world.scene import INVALID_EDGE, SLOTS, Role
from trilith.world.tasks import TASKS, get_task


@pytest.mark.parametrize("task", TASKS)
def test_a_batch_holds_what_the_scenes_hold(task: str) -> None:
    found = states(task, 8)
    schema = ReplaySchema.of(get_task(task), DiscreteRelative(), True, clock=True)
    batch = schema.unpack(observe(schema, found))
    assert batch.legal is not None
    assert batch.steps_left is not None
    assert batch.steps_left.tolist() == [state.max_steps - state.steps for state in found]
    for i, scene in enumerate(state.scene for state in found):
        refs = reference_rows(scene)
        k = len(refs)
        assert batch.present[i].sum() == k
        np.testing.assert_allclose(batch.pose[i, :k], scene.pose[refs], atol=1e-6)
        np.testing.assert_allclose(batch.size[i, :k], scene.size[refs], atol=1e-6)
        np.testing.assert_allclose(batch.velocity[i, :k], scene.velocity[refs], atol=2e-3)
        assert batch.role[i, :k].tolist() == scene.role[refs].tolist()
        assert batch.available[i].tolist() == (scene.role[:SLOTS] == Role.AVAILABLE).tolist()
        touching = {tuple(sorted((int(refs[a]), int(refs[b])))) for a, b in np.argwhere(batch.touch[i]).tolist()}
        assert touching == {(int(a), int(b)) for a, b in scene.contact}
        mask = DiscreteRelative().mask(scene)
        for slot in range(SLOTS):
            if scene.role[slot] == Role.AVAILABLE:
                np.testing.assert_array_equal(batch.legal[i, KIND_OF_SLOT[slot], :k], mask[slot, refs])


@pytest.mark.parametrize("codec", [DiscreteRelative(), DiscreteRelativeXY(5)])
def test_decoding_names_the_same_placement_as_the_codec(codec: DiscreteRelative) -> None:
    schema = ReplaySchema.of(get_task("covering_hard"), codec, False)
    rng = np.random.default_rng(0)
    for state in states("covering_hard", 10):
        refs = reference_rows(state.scene)
        for _ in range(10):
            slot, ref, offset, sticky = (int(rng.integers(n)) for n in (SLOTS, len(refs), schema.offsets, 2))
            parts = [int(part) for part in np.unravel_index(offset, codec.tail)]
            expected = codec.decode(state.scene, (slot, int(refs[ref]), *parts, sticky))
            assert schema.decode(state.scene, (slot, SLOTS + ref, offset, sticky)) == expected


def test_an_index_stands_for_one_edge_action() -> None:
    schema = ReplaySchema.of(get_task("covering_hard"), DiscreteRelativeXY(5), False)
    rng, nodes = np.random.default_rng(0), schema.rows + SLOTS
    actions = rng.integers((nodes, nodes, schema.offsets, 2), size=(500, 4))
    index = schema.index(actions)
    assert np.array_equal(schema.actions(index), actions)
    assert schema.parts(int(index[0])) == tuple(actions[0].tolist())
    assert schema.index(np.array([0, 0, 0, 0])) == 0
    assert schema.index(np.array([nodes - 1, nodes - 1, schema.offsets - 1, 1])) == 2 * schema.edges * schema.offsets - 1
    assert np.array_equal(schema.index(torch.from_numpy(actions)).numpy(), index), "as a tensor too"


def test_edges_that_are_no_placement_decode_to_none() -> None:
    schema = ReplaySchema.of(get_task("covering_hard"), DiscreteRelative(), False)
    scene = states("covering_hard", 1)[0].scene
    assert schema.decode(scene, (SLOTS, 3, 0, 0)) == INVALID_EDGE
    assert schema.decode(scene, (0, 3, 0, 0)) == INVALID_EDGE


def test_mirroring_twice_is_nothing_and_once_is_the_mirrored_world() -> None:
    schema = ReplaySchema.of(get_task("covering_hard"), DiscreteRelative(), True)
    found = states("covering_hard", 12)
    records = observe(schema, found)
    yes = np.ones(len(found), dtype=bool)
    plain, mirrored = schema.unpack(records), schema.unpack(records, yes)
    assert plain.legal is not None
    assert mirrored.legal is not None
    np.testing.assert_allclose(mirrored.pose[..., 0], -plain.pose[..., 0])
    assert np.array_equal(mirrored.legal, plain.legal[..., ::-1])
    none = schema.unpack(records, ~yes).legal
    assert none is not None
    assert np.array_equal(none, plain.legal)
    actions = np.array([[0, 7, 2, 1]] * len(found))
    once = schema.mirror_actions(actions, yes)
    assert once[0].tolist() == [0, 7, 12, 1]
    np.testing.assert_array_equal(schema.mirror_actions(once, yes), actions)


def test_the_world_does_not_notice_left_and_right() -> None:
    """Rewards of mirrored placements in mirrored scenes are the same, which is what makes replaying them mirrored right."""
    from dataclasses import replace

    schema = ReplaySchema.of(get_task("covering_hard"), DiscreteRelative(), True)
    rng = np.random.default_rng(1)
    for state in states("covering_hard", 12, level="hardest"):
        if state.steps:
            continue
        flip = np.array([-1.0, 1.0, -1.0])
        scene = replace(state.scene, pose=np.where(state.scene.role[:, None] == Role.AVAILABLE, 1.0, flip) * state.scene.pose)
        choices = np.argwhere(DiscreteRelative().mask(state.scene)[3])
        ref, offset = choices[rng.integers(len(choices))]
        action = np.array([[3, SLOTS + int(np.flatnonzero(reference_rows(state.scene) == ref)[0]), offset, 0]])
        other = schema.mirror_actions(action, np.ones(1, dtype=bool))
        here = step(state, schema.decode(state.scene, action[0].tolist()))
        there = step(replace(state, scene=scene), schema.decode(scene, other[0].tolist()))
        assert there.state.ended == here.state.ended
        assert there.reward == pytest.approx(here.reward, abs=0.02)


def test_a_layout_has_room_for_what_it_says() -> None:
    for task in TASKS.values():
        small, large = (ReplaySchema.of(task, DiscreteRelative(), True, beyond) for beyond in (False, True))
        assert small.rows <= large.rows
        assert (small.rows < large.rows) == bool(task.generalisation)
        scene = start(task, (*task.levels, *task.generalisation)[-1], np.random.default_rng(0)).scene
        assert large.pack([scene])["count"][0] == len(reference_rows(scene))


def test_a_scene_with_more_objects_than_a_record_has_room_for_is_refused_in_one_line() -> None:
    scene = start("silhouette", "hardest", np.random.default_rng(0)).scene
    count = len(reference_rows(scene))
    with pytest.raises(ValueError, match=f"^a scene of {count} objects besides the available blocks: the agent's task has at most 2$"):
        SceneSchema(2).pack([scene])


def test_the_first_slot_of_a_kind_that_is_left_stands_for_all() -> None:
    schema = ReplaySchema.of(get_task("covering_hard"), DiscreteRelative(), False)
    records = observe(schema, states("covering_hard", 2))
    records["available"] = np.packbits(np.array([[0, 1, 1, 0, 0, 1, 1]], dtype=bool), axis=1)[0, 0]
    for indices, _ in ObjectsNet(schema, "edges").listed(records):
        assert np.unique(schema.actions(indices)[:, 0]).tolist() == [1, 5, 6]
    assert schema.unpack(records).left[0].tolist() == [2, 1, 1]


def test_what_is_computed_once_for_a_batch_depends_on_all_arguments() -> None:
    schema, calls = ReplaySchema.of(get_task("covering_hard"), DiscreteRelative(), False), []

    @once_per_batch
    def scaled(batch: SceneBatch, factor: int = 1) -> int:
        calls.append(factor)
        return factor * len(batch)

    batch = schema.unpack(observe(schema, states("covering_hard", 3)))
    assert [scaled(batch), scaled(batch, factor=2), scaled(batch, 2), scaled(batch, factor=2)] == [3, 6, 6, 6]
    assert calls == [1, 2, 2]
    assert scaled(batch[:2], factor=2) == 4, "a part of a batch is another batch"
