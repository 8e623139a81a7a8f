"""Stories of what blocks do, and that settling is a pure function of the scene."""

import json
import subprocess
import sys

import numpy as np
import pyb2d3
import pytest
from worlds import EMPTY, FIRST, LARGE_SLOT, MEDIUM_SLOT, SMALL_SLOT, build, digest, in_another_process, with_blocks

from trilith.agents.random_agents import LegalAgent
from trilith.utils.compiled import TOLD
from trilith.world import physics
from trilith.world.actions import DiscreteRelative
from trilith.world.episode import State, start, step
from trilith.world.physics import settle
from trilith.world.scene import FLOOR, LARGE, MEDIUM, SMALL, Placement, Role, Scene, fresh_scene, place
from trilith.world.tasks import TASKS
from trilith.world.tasks.task import layer_y

TOP = layer_y(1)
"""Height of a block on a block on the floor."""
KINDS = {SMALL: SMALL_SLOT, MEDIUM: MEDIUM_SLOT, LARGE: LARGE_SLOT}


def changed(scene: Scene, **columns) -> Scene:
    """`scene` with some of its arrays replaced."""
    return Scene(**{name: np.asarray(columns.get(name, getattr(scene, name))) for name in Scene.__dataclass_fields__})


def pairs(array) -> set[tuple[int, int]]:
    return {tuple(pair) for pair in array.tolist()}


def test_a_block_dropped_from_high_above_comes_to_rest_flat_on_the_floor():
    scene = build(Placement(MEDIUM_SLOT, 1.0, 10.0))
    assert scene.pose[FIRST, 1:] == pytest.approx([0.35, 0.0], abs=0.01)
    assert scene.pose[FIRST, 0] == pytest.approx(1.0, abs=0.1)  # the shock of a long fall may shift it a little
    assert pairs(scene.contact) == {(FLOOR, FIRST)}
    assert not scene.velocity.any()


def test_a_long_block_on_two_pillars_stays():
    scene = build(Placement(SMALL_SLOT, -1.3, 0.39), Placement(SMALL_SLOT, 1.3, 0.39), Placement(LARGE_SLOT, 0.0, 1.09))
    assert scene.pose[-1] == pytest.approx([0.0, TOP, 0.0], abs=0.02)
    assert pairs(scene.contact) == {(FLOOR, FIRST), (FLOOR, FIRST + 1), (FIRST, FIRST + 2), (FIRST + 1, FIRST + 2)}


def test_a_block_short_of_its_balance_point_stays_and_one_past_it_falls():
    def overhanging(x):
        return build(Placement(SMALL_SLOT, 0.0, 0.39), Placement(MEDIUM_SLOT, x, 1.09)).pose[-1]

    assert overhanging(0.25) == pytest.approx([0.25, TOP, 0.0], abs=0.02)
    fallen = overhanging(0.5)
    assert fallen[1] < TOP - 0.1
    assert abs(fallen[2]) > 0.2  # leaning on the small block, one end on the floor


def test_glue_holds_a_cantilever_that_falls_without_it():
    def cantilever(sticky):
        return build(Placement(SMALL_SLOT, 0.0, 0.39, sticky), Placement(LARGE_SLOT, 1.2, 1.09)).pose[-1]

    assert cantilever(sticky=True) == pytest.approx([1.2, TOP, 0.0], abs=0.05)
    assert cantilever(sticky=False)[1] < TOP - 0.2


def test_a_block_dropped_beside_an_object_slides_down_beside_it():
    scene = build(Placement(MEDIUM_SLOT, 0.0, 0.39), Placement(MEDIUM_SLOT, 0.0, 1.09))
    beside = DiscreteRelative().decode(scene, (SMALL_SLOT, FIRST + 1, 14, 0))
    scene = build(beside, scene=scene)
    x, y, angle = scene.pose[-1]
    assert x > (MEDIUM + SMALL) / 2 - 0.01
    assert y == pytest.approx(0.35, abs=0.01)
    assert angle == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize("slot", KINDS.values(), ids=["small", "medium", "large"])
def test_a_tower_of_six_stands_still_for_20_seconds(slot):
    tower = build(*(Placement(slot, 0.0, layer_y(k) + 0.04) for k in range(6)))
    result = settle(tower, record=True, early_stop=False)
    assert result.steps == 1000
    assert np.abs(result.frames - tower.pose).max() < 0.01
    assert np.abs(tower.pose[FIRST:, 0]).max() < 0.02
    assert np.abs(tower.pose[FIRST:, 2]).max() < 0.01


def test_a_leaning_block_neither_climbs_nor_creeps_away_however_often_it_settles():
    lean = build(Placement(SMALL_SLOT, 0.0, 0.39), Placement(LARGE_SLOT, 1.2, 2.0))
    assert abs(lean.pose[-1, 2]) > 0.2
    scene = lean
    for _ in range(20):
        scene = settle(scene).scene
    assert scene.pose[-1, 1] < lean.pose[-1, 1] + 5e-4
    assert scene.pose[-1] == pytest.approx(lean.pose[-1], abs=0.02)


def test_a_block_on_an_obstacle_ends_the_episode():
    state = State(fresh_scene([], [(0.0, layer_y(0), 2.0, 0.35)]), "covering", 0)
    result = step(state, Placement(SMALL_SLOT, 0.0, 3.0))
    assert result.settled.hit
    assert result.state.ended == "obstacle_hit"
    assert result.state.scene.pose[-1, 1] == pytest.approx(0.35 + 0.175 + 0.35, abs=0.03)  # as it is at the moment of contact


def test_a_block_falling_past_an_obstacle_does_not_end_the_episode():
    state = State(fresh_scene([], [(0.0, layer_y(0), 2.0, 0.35)]), "covering", 0)
    assert step(state, Placement(SMALL_SLOT, 1.0 + 0.35 + 0.02, 3.0)).state.ended is None


@pytest.mark.parametrize("sticky", [False, True], ids=["loose", "sticky"])
def test_a_block_that_falls_off_the_end_of_the_floor_comes_to_rest_far_below_and_bonds_to_nothing(sticky):
    scene = with_blocks(EMPTY, [(SMALL_SLOT, 14.5, 0.5, 0.0)])
    columns = [getattr(scene, name) for name in Scene.__dataclass_fields__]
    columns[4] = np.append(EMPTY.sticky, sticky)
    result = settle(Scene(*columns))
    assert result.scene.pose[-1, 1] == pytest.approx(-10 + 0.35, abs=0.02)
    assert not len(result.scene.glue)
    assert not len(result.scene.contact)
    assert not result.scene.velocity.any()
    assert result.steps < 300


@pytest.mark.parametrize("width", KINDS, ids=["small", "medium", "large"])
@pytest.mark.parametrize("sticky", [False, True], ids=["loose", "sticky"])
def test_a_tower_of_six_layers_fills_its_targets_in_silhouette(width, sticky):
    state = State(fresh_scene([(0.5, layer_y(k), width, 0.7) for k in range(6)], []), "silhouette", 5)
    rewards = []
    for target in state.scene.rows(Role.TARGET):
        result = step(state, Placement(KINDS[width], 0.5, state.scene.pose[target, 1] + 0.04, sticky))
        state = result.state
        rewards.append(result.reward)
    assert rewards == [0.5 if sticky else 1.0] * 6
    assert state.ended == "complete"


# Glue


def test_a_sticky_block_bonds_to_the_floor_and_to_a_loose_block_placed_on_it_later():
    scene = build(Placement(SMALL_SLOT, 0.0, 0.39, True), Placement(MEDIUM_SLOT, 0.0, 1.09), Placement(SMALL_SLOT, 0.0, 1.8))
    assert pairs(scene.glue) == {(FLOOR, FIRST), (FIRST, FIRST + 1)}


def test_a_sticky_block_bonds_to_the_loose_blocks_it_lands_on():
    scene = build(Placement(SMALL_SLOT, -0.6, 0.39), Placement(SMALL_SLOT, 0.6, 0.39), Placement(MEDIUM_SLOT, 0.0, 1.2, True))
    assert pairs(scene.glue) == {(FIRST, FIRST + 2), (FIRST + 1, FIRST + 2)}


def test_loose_blocks_do_not_bond():
    scene = build(Placement(SMALL_SLOT, 0.0, 0.39), Placement(MEDIUM_SLOT, 0.0, 1.09))
    assert not len(scene.glue)


def test_a_sticky_block_passes_through_a_target_without_bonding():
    scene = build(Placement(SMALL_SLOT, 0.0, 2.0, True), scene=fresh_scene([(0.0, 1.4, 0.7, 0.7)], []))
    assert pairs(scene.glue) == {(FLOOR, 9)}
    assert scene.pose[-1, 1] == pytest.approx(0.35, abs=0.01)


def test_a_cantilever_of_three_large_blocks_glued_end_to_end_stays_straight():
    arm = [Placement(LARGE_SLOT, 1.4 + 2.8 * k, layer_y(k + 1) + 0.04, True) for k in range(2)]
    scene = build(Placement(LARGE_SLOT, -1.4, 0.39, True), *arm)
    later = settle(scene, early_stop=False).scene
    for each in (scene, later):
        assert np.degrees(np.abs(each.pose[FIRST:, 2]).max()) < 0.1
    assert scene.pose[-1, 1] == pytest.approx(layer_y(2), abs=0.03)


def test_a_glued_tower_that_leans_over_stays_straight():
    scene = build(*(Placement(SMALL_SLOT, 0.3 * k, layer_y(k) + 0.04, True) for k in range(6)))
    assert np.degrees(np.abs(scene.pose[FIRST:, 2]).max()) < 0.1
    assert np.abs(scene.pose[FIRST:, 1] - [layer_y(k) for k in range(6)]).max() < 0.02


def test_an_arch_that_is_glued_to_one_of_two_towers_does_not_sink_into_the_other():
    one = [Placement(SMALL_SLOT, -1.3, layer_y(k) + 0.04, True) for k in range(2)]
    two = [Placement(SMALL_SLOT, 1.3, layer_y(k) + 0.04) for k in range(2)]
    scene = build(*one, *two, Placement(LARGE_SLOT, 0.0, layer_y(2) + 0.04))
    arch = len(scene) - 1
    assert (FIRST + 1, arch) in pairs(scene.glue)
    assert (FIRST + 3, arch) not in pairs(scene.glue)
    assert scene.pose[arch] == pytest.approx([0.0, layer_y(2), 0.0], abs=0.02)
    for tower in (FIRST + 1, FIRST + 3):
        assert scene.pose[arch, 1] - scene.pose[tower, 1] > 0.7 - 0.012  # no deeper than loose blocks rest in each other


def test_a_newcomer_glued_to_a_fixed_tower_still_collides_with_the_floor_and_with_the_tower():
    tower = build(*(Placement(SMALL_SLOT, 0.0, layer_y(k) + 0.04, True) for k in range(3)))
    scene = build(Placement(SMALL_SLOT, 0.0, layer_y(3) + 0.04), Placement(MEDIUM_SLOT, 3.0, 0.39), scene=tower)
    assert scene.pose[-2, 1] == pytest.approx(layer_y(3), abs=0.02)
    assert scene.pose[-1, 1] == pytest.approx(layer_y(0), abs=0.01)


def free_group() -> Scene:
    """A medium block high above the floor and a sticky large one on it, which hangs over so far that both must tip."""
    scene = with_blocks(EMPTY, [(MEDIUM_SLOT, 0.0, 6.0, 0.0), (LARGE_SLOT, 1.9, 6.7, 0.0)])
    return changed(scene, sticky=[False] * FIRST + [False, True])


def test_a_free_glued_group_falls_and_tumbles_as_one():
    frames = settle(free_group(), record=True).frames[:, FIRST:]
    apart = np.hypot(*(frames[:, 1, :2] - frames[:, 0, :2]).T)
    np.testing.assert_allclose(apart, apart[0], atol=1e-5)
    np.testing.assert_allclose(frames[:, 1, 2] - frames[:, 0, 2], 0.0, atol=1e-5)
    assert np.degrees(np.abs(frames[-1, 0, 2])) > 10  # it came down on its lower block, and tipped over
    assert frames[-1, :, 1].max() < 2.0


def momentum(scene: Scene) -> np.ndarray:
    """(3,): linear momentum, and angular momentum about the origin, of all blocks."""
    rows = scene.rows(Role.BLOCK)
    mass = scene.size[rows].prod(axis=1)
    (x, y), (vx, vy, spin) = scene.pose[rows, :2].T, scene.velocity[rows].T
    inertia = mass * (scene.size[rows] ** 2).sum(axis=1) / 12
    return np.array([(mass * vx).sum(), (mass * vy).sum(), (mass * (x * vy - y * vx) + inertia * spin).sum()])


def test_a_bond_between_two_free_blocks_keeps_linear_and_angular_momentum(monkeypatch):
    scene = with_blocks(EMPTY, [(MEDIUM_SLOT, 0.0, 6.0, 0.0), (LARGE_SLOT, 1.4, 6.7 + 0.004, 0.1)])
    velocity = np.zeros((len(scene), 3))
    velocity[FIRST:] = [(1.0, 0.5, 2.0), (-1.0, -3.0, -1.0)]
    scene = changed(scene, sticky=[False] * FIRST + [True, False], velocity=velocity)
    monkeypatch.setattr(physics, "GRAVITY", 0.0)
    monkeypatch.setattr(physics, "ANGULAR_DAMPING", 0.0)
    monkeypatch.setattr(physics, "MAX_STEPS", 1)
    after = settle(scene).scene
    assert pairs(after.glue) == {(FIRST, FIRST + 1)}
    assert after.velocity[FIRST, 2] == after.velocity[FIRST + 1, 2]  # one body
    np.testing.assert_allclose(momentum(after), momentum(scene), rtol=1e-3, atol=1e-3)


def test_two_free_blocks_that_meet_in_the_air_fly_on_as_one_with_the_same_momentum(monkeypatch):
    scene = with_blocks(EMPTY, [(MEDIUM_SLOT, 0.0, 6.0, 0.0), (SMALL_SLOT, 1.7, 6.2, 0.3)])
    velocity = np.zeros((len(scene), 3))
    velocity[FIRST:] = [(2.0, 0.0, 0.5), (-2.0, 0.5, 0.0)]
    scene = changed(scene, sticky=[False] * FIRST + [False, True], velocity=velocity)
    monkeypatch.setattr(physics, "GRAVITY", 0.0)
    monkeypatch.setattr(physics, "ANGULAR_DAMPING", 0.0)
    monkeypatch.setattr(physics, "MAX_STEPS", 20)
    result = settle(scene, record=True)
    assert pairs(result.scene.glue) == {(FIRST, FIRST + 1)}
    apart = np.hypot(*(result.frames[:, FIRST + 1, :2] - result.frames[:, FIRST, :2]).T)
    assert apart[0] > apart[-1] + 0.2  # they did fly towards each other first
    np.testing.assert_allclose(apart[-5:], apart[-1], atol=1e-5)
    np.testing.assert_allclose(momentum(result.scene), momentum(scene), rtol=2e-3, atol=5e-3)


def test_the_far_member_of_a_falling_group_hits_an_obstacle():
    scene = fresh_scene([], [(2.4, 3.0, 0.7, 0.35)])
    falling = with_blocks(scene, [(MEDIUM_SLOT, 0.0, 6.0, 0.0), (LARGE_SLOT, 1.4, 6.7, 0.0)])
    falling = changed(falling, sticky=[False] * (FIRST + 1) + [True, False])
    result = settle(falling)
    assert pairs(result.scene.glue) == {(FIRST + 1, FIRST + 2)}
    assert result.hit
    assert result.scene.contact.tolist() == [[FIRST, FIRST + 2], [FIRST + 1, FIRST + 2]]  # the obstacle and the far block


def test_a_fixed_sticky_block_bonds_a_loose_newcomer_that_is_then_fixed_too():
    tower = build(Placement(SMALL_SLOT, 0.0, 0.39, True))
    scene = build(Placement(LARGE_SLOT, 1.4, 1.09), scene=tower)
    assert pairs(scene.glue) == {(FLOOR, FIRST), (FIRST, FIRST + 1)}
    heavy = build(Placement(LARGE_SLOT, 2.8, 1.79), scene=scene)  # loose, on the arm's far end
    assert heavy.pose[: FIRST + 2].tobytes() == scene.pose.tobytes()


def test_a_newcomer_that_touches_two_members_lists_both_bonds():
    fixed = build(Placement(SMALL_SLOT, -0.6, 0.39, True), Placement(SMALL_SLOT, 0.6, 0.39, True))
    free = build(Placement(LARGE_SLOT, 0.0, 0.39), Placement(SMALL_SLOT, -1.0, 1.09, True), Placement(SMALL_SLOT, 1.0, 1.09, True))
    for base, members in ((fixed, (FIRST, FIRST + 1)), (free, (FIRST + 1, FIRST + 2))):
        scene = build(Placement(LARGE_SLOT, 0.0, base.pose[-1, 1] + 0.74), scene=base)
        assert {(member, len(scene) - 1) for member in members} <= pairs(scene.glue)


def some_glued_scenes() -> list[Scene]:
    return [scene for scene in RANDOM if len(scene.glue) > 2][::5]


def test_the_order_of_the_glue_list_does_not_matter():
    rng = np.random.default_rng(0)
    for scene in some_glued_scenes():
        order = rng.permutation(len(scene.glue))
        other = changed(scene, glue=scene.glue[order], glue_frame=scene.glue_frame[order])
        one, two = settle(scene), settle(other)
        for name in ("pose", "velocity", "contact"):
            assert getattr(one.scene, name).tobytes() == getattr(two.scene, name).tobytes()
        assert (one.hit, one.steps) == (two.hit, two.steps)
        assert pairs(one.scene.glue) == pairs(two.scene.glue)


def test_a_mirrored_scene_settles_to_the_mirrored_result():
    def mirrored(scene):
        return changed(scene, pose=scene.pose * [-1, 1, -1], velocity=scene.velocity * [-1, 1, -1])

    bridge = [Placement(SMALL_SLOT, -1.3, 0.39, True), Placement(SMALL_SLOT, 1.3, 0.39), Placement(LARGE_SLOT, 0.2, 1.09)]
    for last in (Placement(MEDIUM_SLOT, 1.0, 1.79), Placement(SMALL_SLOT, -0.8, 1.79, True), Placement(LARGE_SLOT, 2.9, 3.0, True)):
        scene = place(build(*bridge), last, keep=True)
        one, two = settle(scene), settle(mirrored(scene))
        assert pairs(one.scene.glue) == pairs(two.scene.glue)
        np.testing.assert_allclose(mirrored(two.scene).pose[FIRST:], one.scene.pose[FIRST:], atol=2e-3)


def test_fixed_rows_are_the_same_bytes_after_100_settles():
    scene = build(Placement(SMALL_SLOT, 0.0, 0.39, True), Placement(LARGE_SLOT, 1.2, 1.09), Placement(MEDIUM_SLOT, -4.0, 3.0))
    fixed = [FLOOR, FIRST, FIRST + 1]
    now = scene
    for _ in range(100):
        now = settle(now).scene
    assert now.pose[fixed].tobytes() == scene.pose[fixed].tobytes()
    assert not now.velocity[fixed].any()
    np.testing.assert_allclose(now.pose, scene.pose, atol=1e-3)  # and the loose one hardly moved


def test_bonds_stay_through_later_settling_each_once():
    scene = build(Placement(SMALL_SLOT, 0.0, 0.39, True), Placement(LARGE_SLOT, 1.2, 1.09, True))
    later = build(Placement(SMALL_SLOT, 1.2, 1.8), Placement(SMALL_SLOT, -5.0, 0.4), scene=scene)
    assert np.array_equal(later.glue[: len(scene.glue)], scene.glue)
    assert np.array_equal(later.glue_frame[: len(scene.glue)], scene.glue_frame)
    assert len(pairs(later.glue)) == len(later.glue) == len(scene.glue) + 1


def test_glue_survives_saving_and_restoring_and_acts_the_same():
    cantilever = build(Placement(SMALL_SLOT, 0.0, 0.39, True), Placement(LARGE_SLOT, 1.2, 1.09))
    restored = Scene.from_json(json.loads(json.dumps(cantilever.to_json())))
    assert restored == cantilever
    load = Placement(SMALL_SLOT, 2.5, 1.8)
    assert build(load, scene=restored) == build(load, scene=cantilever)
    bare = [getattr(cantilever, name) for name in ("pose", "size", "velocity", "role", "sticky", "contact")]
    torn = Scene(*bare, np.zeros((0, 2), int), np.zeros((0, 5)))
    torn = Scene(*[getattr(torn, n) if n != "sticky" else np.zeros(len(torn), bool) for n in Scene.__dataclass_fields__])
    assert settle(torn).scene.pose[-1, 1] < TOP - 0.2  # what is restored without its glue falls


# A real touch


@pytest.mark.parametrize(("apart", "touch"), [(0.015, False), (0.003, True)])
def test_glue_needs_a_real_touch_and_not_just_the_engines_word(apart, touch):
    left = build(Placement(SMALL_SLOT, 0.0, 0.39, True))
    right = left.pose[-1, 0] + SMALL + apart
    result = settle(with_blocks(left, [(SMALL_SLOT, right, left.pose[-1, 1], 0.0)]))
    assert ((FIRST, FIRST + 1) in pairs(result.scene.glue)) == touch
    assert ((FIRST, FIRST + 1) in pairs(result.scene.contact)) == touch


@pytest.mark.parametrize(("apart", "touch"), [(0.015, False), (0.003, True)])
def test_hitting_an_obstacle_needs_a_real_touch_and_not_just_the_engines_word(apart, touch):
    scene = fresh_scene([], [(0.0, layer_y(0), 2.0, 0.35)])
    assert settle(with_blocks(scene, [(SMALL_SLOT, 1.35 + apart, 0.3495, 0.0)])).hit == touch


def test_the_engine_names_pairs_that_do_not_touch():
    """Why the two tests above are needed: events alone would bond blocks that are 0.015 m apart."""
    world = pyb2d3.World(gravity=(0.0, 0.0))
    shape = pyb2d3.ShapeDef()
    shape.enable_contact_events = True
    for x in (0.0, SMALL + 0.015):
        definition = pyb2d3.BodyDef()
        definition.type, definition.position = pyb2d3.BodyType.DYNAMIC, (x, 0.0)
        world.create_body_from_def(definition).create_polygon_shape(shape, pyb2d3.box(SMALL / 2, 0.35))
    world.step(0.02, 4)
    named = world.get_contact_events().begin_count
    world.destroy()
    assert named == 1


def test_a_sticky_block_that_touches_another_from_below_before_the_first_step_hangs_there():
    pillars = [Placement(SMALL_SLOT, x, layer_y(k) + 0.04) for x in (-1.3, 1.3) for k in range(2)]
    table = build(*pillars, Placement(LARGE_SLOT, 0.0, layer_y(2) + 0.04))
    under = table.pose[-1, 1] - 0.7
    for below, hangs in ((0.003, True), (0.03, False)):
        scene = build(Placement(SMALL_SLOT, 0.0, under - below, True), scene=table)
        assert ((len(scene) - 2, len(scene) - 1) in pairs(scene.glue)) == hangs
        assert (scene.pose[-1, 1] == pytest.approx(under - below, abs=0.02)) == hangs


def test_an_obstacle_touched_from_below_before_the_first_step_is_hit():
    state = State(fresh_scene([], [(0.0, layer_y(2), 2.0, 0.35)]), "covering", 0)
    under = layer_y(2) - 0.175 - 0.35
    assert step(state, Placement(SMALL_SLOT, 0.0, under - 0.003)).state.ended == "obstacle_hit"
    assert step(state, Placement(SMALL_SLOT, 0.0, under - 0.015)).state.ended is None


# A pure function


def random_scenes() -> list[Scene]:
    """Scenes before settling, of episodes of random legal actions: towers, heaps, glue, obstacles about to be hit."""
    scenes = []
    for task in TASKS.values():
        for seed in range(40):
            rng = np.random.default_rng(seed)
            state = start(task, "all", rng)
            while not state.ended:
                placement = LegalAgent().act([state], [rng])[0]
                scenes.append(place(state.scene, placement, task.keeps_supply))
                state = step(state, placement).state
    for seed in range(20):  # blocks poured onto a heap, half of them sticky in half of the heaps
        rng = np.random.default_rng(seed)
        scene = EMPTY
        for k in range(8):
            sticky = seed % 2 == 1 and rng.random() < 0.5
            scenes.append(place(scene, Placement(int(rng.integers(7)), float(rng.uniform(-1, 1)), 4.0 + k, sticky), keep=True))
            scene = settle(scenes[-1]).scene
    return scenes


RANDOM = random_scenes()


def test_the_random_scenes_have_glue_and_tilted_blocks():
    assert len(RANDOM) > 450
    assert sum(len(scene.glue) > 1 for scene in RANDOM) > 50
    assert sum((np.abs(np.sin(scene.pose[:, 2])) > 0.1).any() for scene in RANDOM) > 60


def test_stopping_at_rest_equals_the_full_20_seconds_to_a_millimetre():
    saved = 0
    for scene in RANDOM:
        early, full = settle(scene), settle(scene, early_stop=False)
        assert early.hit == full.hit
        assert pairs(early.scene.glue) == pairs(full.scene.glue)
        np.testing.assert_allclose(early.scene.pose[:, :2], full.scene.pose[:, :2], atol=1e-3)
        assert np.abs(np.sin((early.scene.pose - full.scene.pose)[:, 2] / 2)).max() < 1e-3
        assert full.steps == 1000 or full.hit
        saved += full.steps - early.steps
    assert saved > 500 * len(RANDOM)


def test_settling_leaves_its_scene_alone_and_gives_the_same_bytes_again():
    for scene in RANDOM[::6]:
        before = scene.tobytes()
        first, second = settle(scene), settle(scene, record=True)
        assert scene.tobytes() == before
        assert first.scene.tobytes() == second.scene.tobytes()
        assert first.frames is None
        assert second.frames.shape == (second.steps + 1, len(scene), 3)
        np.testing.assert_array_equal(second.frames[0], scene.pose)
        np.testing.assert_array_equal(second.frames[-1], second.scene.pose)


def test_another_process_settles_to_the_same_bytes(tmp_path):
    path = tmp_path / "scenes.json"
    path.write_text(json.dumps([scene.to_json() for scene in RANDOM[::6]]))
    code = """
import hashlib, json, sys
from trilith.world.physics import settle
from trilith.world.scene import Scene
for data in json.load(open(sys.argv[1])):
    print(hashlib.sha256(settle(Scene.from_json(data)).scene.tobytes()).hexdigest())
"""
    assert in_another_process(code, str(path)) == [digest(settle(scene).scene.tobytes()) for scene in RANDOM[::6]]


def test_only_blocks_move():
    for scene in RANDOM[::6]:
        after = settle(scene).scene
        fixed = scene.role != Role.BLOCK
        np.testing.assert_array_equal(after.pose[fixed], scene.pose[fixed])
        assert not after.velocity[fixed].any()
        for name in ("size", "role", "sticky"):
            np.testing.assert_array_equal(getattr(after, name), getattr(scene, name))


def test_contacts_are_the_pairs_of_a_block_and_something_solid_that_touch():
    for scene in RANDOM[::6]:
        after = settle(scene).scene
        boxes = np.concatenate([after.pose, after.size], axis=1)
        expected = [
            [i, j]
            for i in range(len(after))
            for j in range(i + 1, len(after))
            if after.solid[i] and after.solid[j]
            and Role.BLOCK in (after.role[i], after.role[j])
            and physics.gap(*boxes[i], *boxes[j]) <= 0.005
        ]  # fmt: skip
        assert after.contact.tolist() == expected


@pytest.mark.parametrize("angle", [0.0, 0.01, 0.3, 1.0, -2.0, 3.0])
def test_a_tilted_block_in_free_fall_keeps_its_angle(angle):
    frames = settle(with_blocks(EMPTY, [(LARGE_SLOT, 0.0, 10.0, angle)]), record=True).frames
    np.testing.assert_allclose(frames[:20, -1, 2], angle, atol=1e-6)
    np.testing.assert_allclose(np.diff(frames[:20, -1, 1], n=2), -9.8 * 0.02**2, atol=1e-4)


def test_settling_many_worlds_in_a_row_leaves_none_behind():
    scene = place(EMPTY, Placement(SMALL_SLOT, 0.0, 0.36), keep=True)
    assert len({settle(scene).scene.tobytes() for _ in range(400)}) == 1  # the engine has room for 128 worlds at a time


def test_a_process_that_settled_ends_quietly():
    """The engine's binding complains on standard error of what is still held when the process ends."""
    code = """
from trilith.world.physics import settle
from trilith.world.scene import Placement, fresh_scene, place
settle(place(fresh_scene([], [(3.0, 1.05, 1.0, 0.35)]), Placement(0, 0.0, 0.39, True), keep=True))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr.removeprefix(f"{TOLD}\n") == ""
