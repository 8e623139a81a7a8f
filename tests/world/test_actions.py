"""The five action spaces give the stated coordinates, and the mask of legal actions is what brute force says."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worlds import (
    EMPTY,
    FIRST,
    LARGE_SLOT,
    MEDIUM_SLOT,
    SMALL_SLOT,
    blocks,
    build,
    corners,
    distance,
    mirrored,
    obstacles,
    played,
    shared_area,
    slots,
    with_blocks,
)

from trilith.world import episode
from trilith.world.actions import (
    CODECS,
    ContinuousAbsolute,
    ContinuousRelative,
    DiscreteAbsolute,
    DiscreteRelative,
    DiscreteRelativeXY,
    make_codec,
)
from trilith.world.episode import State, step
from trilith.world.physics import Settled
from trilith.world.scene import FLOOR, INVALID_EDGE, PLACE_X, PLACE_Y, SLOT_X, SLOTS, Placement, Role, Scene, fresh_scene, place
from trilith.world.tasks import TASKS

SCENE = with_blocks(fresh_scene([(2.0, 3.0, 2.1, 0.7)], [(-4.0, 0.35, 1.5, 0.35)]), [(MEDIUM_SLOT, 4.0, 0.35, 0.0)])
TARGET, OBSTACLE, BLOCK = 8, 9, 10


def test_there_are_five_spaces_each_by_its_name():
    assert [(name, codec.name) for name, codec in CODECS.items()] == [
        (name, name)
        for name in ("continuous_absolute", "continuous_relative", "discrete_absolute", "discrete_relative", "discrete_relative_xy")
    ]


# Continuous absolute


@pytest.mark.parametrize(
    ("action", "placement"),
    [
        ((-1, -1, -1, -1), Placement(0, -7.5, 0.0, False)),
        ((1, 1, 1, 1), Placement(6, 7.5, 15.0, True)),
        ((0, 0, 0, 0), Placement(4, 0.0, 7.5, False)),
        ((0, 0, 0, 1e-9), Placement(4, 0.0, 7.5, True)),
        ((-0.95, 0.5, -0.9, -0.3), Placement(0, 3.75, 0.75, False)),
        ((5, -5, 99, 2), Placement(6, -7.5, 15.0, True)),  # beyond the range is clipped
    ],
)
def test_continuous_absolute_coordinates(action, placement):
    decoded = ContinuousAbsolute().decode(EMPTY, action)
    assert decoded._replace(x=0, y=0) == placement._replace(x=0, y=0)
    assert (decoded.x, decoded.y) == pytest.approx((placement.x, placement.y))


@pytest.mark.parametrize("codec", [ContinuousAbsolute(), ContinuousRelative()], ids=lambda codec: codec.name)
def test_continuous_actions_pick_the_nearest_slot(codec):
    rest = [0.0] * (codec.length - 1)
    for slot, x in enumerate(SLOT_X):
        assert codec.decode(EMPTY, (x / 7, *rest)).slot == slot
    for pick in np.linspace(-1, 1, 201):
        assert codec.decode(EMPTY, (pick, *rest)).slot == min(range(SLOTS), key=lambda slot: abs(SLOT_X[slot] - 7 * pick))


@pytest.mark.parametrize("codec", [ContinuousAbsolute(), ContinuousRelative()], ids=lambda codec: codec.name)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_continuous_actions_that_are_not_finite_are_refused_by_their_value(codec, value):
    for part in range(codec.length):
        action = np.zeros(codec.length)
        action[part] = value
        with pytest.raises(ValueError, match=str(value)):
            codec.decode(EMPTY, action)
    with pytest.raises(ValueError, match=f"must be {codec.length}"):
        codec.decode(EMPTY, np.zeros(codec.length + 1))


# Continuous relative


def towards(row) -> tuple[float, float]:
    """The (x, y) of an action that points at an object."""
    x, y, _ = SCENE.pose[row]
    return x / 7.5, y / 7.5 - 1


@pytest.mark.parametrize(
    ("row", "y"), [(TARGET, 3.0 + 0.04), (OBSTACLE, 0.35 + 0.175 + 0.35 + 0.04), (BLOCK, 0.35 + 0.7 + 0.04), (FLOOR, 0.35 + 0.04)]
)
@pytest.mark.parametrize("slot", [SMALL_SLOT, MEDIUM_SLOT, LARGE_SLOT])
@pytest.mark.parametrize("shift", [-1.0, -0.25, 0.0, 1.0])
def test_continuous_relative_coordinates(row, y, slot, shift):
    placement = ContinuousRelative().decode(SCENE, (SLOT_X[slot] / 7, *towards(row), shift, 1.0))
    reach = (SCENE.size[row, 0] + SCENE.size[slot, 0]) / 2 + 0.04
    assert placement.slot == slot
    assert placement.sticky
    assert (placement.x, placement.y) == pytest.approx((SCENE.pose[row, 0] + shift * reach, y))


def test_continuous_relative_never_picks_an_available_block():
    for x, y in itertools.product(np.linspace(-1, 1, 9), repeat=2):
        there = np.array([7.5 * x, 7.5 * (y + 1)])
        nearest = min(range(FLOOR, len(SCENE)), key=lambda row: float(((SCENE.pose[row, :2] - there) ** 2).sum()))
        placement = ContinuousRelative().decode(SCENE, (0.0, x, y, 0.0, 0.0))
        assert placement.x == pytest.approx(SCENE.pose[nearest, 0])


# Discrete absolute


@pytest.mark.parametrize(("heights", "widths"), [(8, 64), (256, 256), (1, 3)])
def test_discrete_absolute_corners_are_the_centres_of_the_outermost_cells(heights, widths):
    codec = DiscreteAbsolute(heights, widths)
    assert codec.space(20).sizes == (7, heights, widths, 2)
    dx, dy = 15 / widths / 2, 15 / heights / 2
    for i, y in ((0, dy), (heights - 1, 15 - dy)):
        for j, x in ((0, -7.5 + dx), (widths - 1, 7.5 - dx)):
            for slot, sticky in ((0, 0), (6, 1)):
                placement = codec.decode(EMPTY, (slot, i, j, sticky))
                assert (placement.slot, placement.sticky) == (slot, bool(sticky))
                assert (placement.x, placement.y) == pytest.approx((x, y))


def test_each_task_has_the_grid_of_the_paper():
    assert {name: task.grid for name, task in TASKS.items()} == {
        "silhouette": (256, 256),
        "connecting": (8, 64),
        "covering": (8, 64),
        "covering_hard": (8, 64),
    }
    assert np.prod(DiscreteAbsolute(*TASKS["silhouette"].grid).space(20).sizes) == 917504
    assert np.prod(DiscreteAbsolute(*TASKS["covering"].grid).space(20).sizes) == 7168


@pytest.mark.parametrize("bad", [(0, 5), (5, 0), (-1, 5)])
def test_a_grid_without_cells_is_refused(bad):
    with pytest.raises(ValueError, match=f"{bad[0]} x {bad[1]}"):
        DiscreteAbsolute(*bad)


# Discrete relative


@pytest.mark.parametrize("n", [4, 7, 15, 31, 40])
@pytest.mark.parametrize(("c", "r"), [(SMALL_SLOT, TARGET), (LARGE_SLOT, OBSTACLE), (MEDIUM_SLOT, BLOCK), (SMALL_SLOT, FLOOR)])
def test_discrete_relative_offsets_are_even_and_end_beyond_the_edge(n, c, r):
    codec = DiscreteRelative(n)
    touching = (SCENE.size[r, 0] + SCENE.size[c, 0]) / 2
    x = [codec.decode(SCENE, (c, r, i, 0)).x - SCENE.pose[r, 0] for i in range(n)]
    reach = touching * (1 + 1 / (n - 3))
    np.testing.assert_allclose(x, np.linspace(-reach, reach, n), atol=1e-12)
    assert x[-1] > touching
    y = [codec.decode(SCENE, (c, r, i, 0)).y for i in range(n)]
    on = 0.0 if r == TARGET else (SCENE.size[r, 1] + 0.7) / 2
    np.testing.assert_allclose(y, SCENE.pose[r, 1] + on + 0.04)


@pytest.mark.parametrize("n", [4, 15])
def test_discrete_relative_xy_has_the_same_grid_on_y(n):
    codec = DiscreteRelativeXY(n)
    for r in (TARGET, OBSTACLE, BLOCK, FLOOR):
        reach = (SCENE.size[r, 1] + 0.7) / 2 * (1 + 1 / (n - 3))
        y = [codec.decode(SCENE, (MEDIUM_SLOT, r, 1, j, 1)).y - SCENE.pose[r, 1] for j in range(n)]
        np.testing.assert_allclose(y, np.linspace(-reach, reach, n), atol=1e-12)
        x = [codec.decode(SCENE, (MEDIUM_SLOT, r, i, 0, 1)).x for i in range(n)]
        assert x == [DiscreteRelative(n).decode(SCENE, (MEDIUM_SLOT, r, i, 1)).x for i in range(n)]
        assert codec.decode(SCENE, (MEDIUM_SLOT, r, 1, 0, 1)).sticky


@pytest.mark.parametrize("codec", [DiscreteRelative(), DiscreteRelativeXY()], ids=lambda codec: codec.name)
def test_sizes_of_the_relative_spaces(codec):
    assert codec.space(20).sizes == (20, 20, *codec.tail, 2)
    assert codec.tail == ((15,) if codec.name == "discrete_relative" else (15, 15))
    assert codec.mask(SCENE).shape == (7, len(SCENE), *codec.tail)


def test_the_floor_is_a_coarse_reference_that_clips_where_blocks_may_be():
    codec = DiscreteRelative()
    x = [place(SCENE, codec.decode(SCENE, (SMALL_SLOT, FLOOR, i, 0)), keep=True).pose[-1, 0] for i in range(15)]
    assert x[:4] == [-7.5] * 4
    assert x[-4:] == [7.5] * 4
    np.testing.assert_allclose(np.diff(x[4:11]), 28.7 / 2 * 13 / 12 / 7)
    assert place(SCENE, codec.decode(SCENE, (SMALL_SLOT, FLOOR, 7, 0)), keep=True).pose[-1, :2] == pytest.approx([0.0, 0.39])


@pytest.mark.parametrize("codec", [DiscreteRelative(), DiscreteRelativeXY()], ids=lambda codec: codec.name)
def test_an_edge_that_does_not_lead_from_an_available_block_to_a_scene_object_is_no_placement(codec):
    at = [0] * len(codec.tail)
    for c, r in itertools.product(range(-2, len(SCENE) + 3), repeat=2):
        valid = 0 <= c < SLOTS and SLOTS <= r < len(SCENE)
        assert (codec.decode(SCENE, (c, r, *at, 0)) != INVALID_EDGE) == valid
    used = place(EMPTY, Placement(3, 0.0, 2.0), keep=False)
    assert codec.decode(used, (3, FLOOR, *at, 0)) == INVALID_EDGE  # used up
    assert codec.decode(used, (4, 3, *at, 0)) != INVALID_EDGE  # and now something to build on


@pytest.mark.parametrize(
    ("codec", "action"),
    [
        (DiscreteAbsolute(), (7, 0, 0, 0)),
        (DiscreteAbsolute(), (0, 8, 0, 0)),
        (DiscreteAbsolute(), (0, 0, 64, 0)),
        (DiscreteAbsolute(), (0, 0, 0, 2)),
        (DiscreteAbsolute(), (0, -1, 0, 0)),
        (DiscreteAbsolute(), (0, 0, 0.5, 0)),
        (DiscreteAbsolute(), (0, 0, np.nan, 0)),
        (DiscreteAbsolute(), (0, 0, np.inf, 0)),
        (DiscreteAbsolute(), (0, 0, 0)),
        (DiscreteRelative(), (0, FLOOR, 15, 0)),
        (DiscreteRelative(), (0, FLOOR, -1, 0)),
        (DiscreteRelative(), (0, FLOOR, 0, 2)),
        (DiscreteRelative(), (0, FLOOR, np.inf, 0)),
        (DiscreteRelative(), (0, np.nan, 0, 0)),
        (DiscreteRelative(), (0, 7.5, 0, 0)),
        (DiscreteRelative(), (0,)),
        (DiscreteRelativeXY(), (0, FLOOR, 0, 15, 0)),
        (DiscreteRelativeXY(), (0, FLOOR, 0, 0)),
    ],
)
def test_discrete_actions_out_of_range_are_refused_by_their_value(codec, action):
    named = rf"action \[{', '.join(str(float(v) if any(isinstance(a, float) for a in action) else v) for v in action)}\]"
    with pytest.raises(ValueError, match=named):
        codec.decode(SCENE, action)


@pytest.mark.parametrize(
    "action", [(0, FLOOR, "x", 0), (0, FLOOR, 10**400, 0), (0, FLOOR, None, 0), ((0, 1), (0, 1), (0, 1), (0, 1)), "none"]
)
def test_discrete_actions_that_are_no_numbers_are_refused_in_one_line(action):
    with pytest.raises(ValueError, match=r"^action .*: must be 4 whole numbers$"):
        DiscreteRelative().decode(SCENE, action)


@pytest.mark.parametrize("offsets", [3, 0, -1])
def test_fewer_than_four_offsets_are_refused(offsets):
    with pytest.raises(ValueError, match=f"{offsets} offsets"):
        DiscreteRelative(offsets)


def test_decoded_placements_are_plain_numbers():
    for name, codec in CODECS.items():
        action = {"continuous_absolute": np.zeros(4), "continuous_relative": np.zeros(5)}.get(
            name, np.array([0, FLOOR, 0, 0, 0] if name.endswith("xy") else [0, FLOOR, 0, 0])
        )
        placement = codec().decode(SCENE, action)
        assert [type(part) for part in placement] == [int, float, float, bool]


# What every codec can do

ANY = [ContinuousAbsolute(), ContinuousRelative(), DiscreteAbsolute(), DiscreteAbsolute(5, 7), DiscreteRelative(), DiscreteRelativeXY(6)]
every_codec = pytest.mark.parametrize("codec", ANY, ids=lambda codec: f"{codec.name}")
some = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def any_scene(obstacles_, blocks_, used) -> Scene:
    """Things anywhere, and the block of one slot used up if there is such a slot."""
    scene = with_blocks(fresh_scene([(1.0, 1.0, 2.1, 0.7)], obstacles_), blocks_)
    return scene if used is None else place(scene, Placement(used, -6.0, 3.0), keep=False)


any_scenes = st.builds(any_scene, obstacles, blocks, st.none() | slots)
seeds = st.integers(0, 2**32)


def placing(codec, scene, rng) -> tuple[list[float], Placement]:
    """An action that is a placement of an available block, and that placement."""
    while True:
        action = codec.space(len(scene)).sample(rng)
        placement = codec.decode(scene, action)
        if placement != INVALID_EDGE and scene.role[placement.slot] == Role.AVAILABLE:
            return action, placement


@every_codec
def test_a_codec_says_what_its_actions_are(codec):
    space, rng = codec.space(len(SCENE)), np.random.default_rng(0)
    actions = np.array([space.sample(rng) for _ in range(2000)])
    assert actions.shape == (2000, codec.length)
    assert space.whole == (codec.dtype.kind == "i")
    assert np.array_equal(actions, actions.round()) == space.whole
    assert (actions >= space.low).all()
    assert (actions <= space.high).all()
    if space.whole:
        np.testing.assert_array_equal(actions.max(axis=0), space.high)
        np.testing.assert_array_equal(actions.min(axis=0), space.low)
        assert space.sizes[-1 - len(codec.tail) : -1] == codec.tail
    else:
        np.testing.assert_allclose([actions.min(axis=0), actions.max(axis=0)], [space.low, space.high], atol=0.02)
    mask = codec.mask(SCENE)
    assert mask is None or mask.shape == (SLOTS, *space.sizes[1:-1])


def test_a_codec_is_made_of_the_options_that_it_has():
    for name in CODECS:
        codec = make_codec(name, offsets=9, heights=3, widths=5)
        assert codec.name == name
        assert codec == {
            "discrete_absolute": DiscreteAbsolute(3, 5),
            "discrete_relative": DiscreteRelative(9),
            "discrete_relative_xy": DiscreteRelativeXY(9),
        }.get(name, codec)


@every_codec
@some
@given(any_scenes, seeds)
def test_what_was_decoded_is_encoded_as_the_same_placement(codec, scene, seed):
    _, placement = placing(codec, scene, np.random.default_rng(seed))
    action = codec.encode(scene, placement)
    assert len(action) == codec.length
    assert all(
        (low <= part <= high) for low, part, high in zip(codec.space(len(scene)).low, action, codec.space(len(scene)).high, strict=True)
    )
    assert [type(part) for part in action] == [int if codec.space(1).whole else float] * codec.length
    again = codec.decode(scene, action)
    assert (again.slot, again.sticky) == (placement.slot, placement.sticky)
    assert (again.x, again.y) == pytest.approx((placement.x, placement.y), abs=1e-9)
    assert codec.encode(scene, again) == pytest.approx(action, abs=1e-9)


@every_codec
@some
@given(any_scenes, seeds)
def test_no_action_comes_nearer_to_a_placement_than_its_encoding(codec, scene, seed):
    rng = np.random.default_rng(seed)
    slot = int(rng.choice(np.flatnonzero(scene.role[:SLOTS] == Role.AVAILABLE)))
    wanted = Placement(slot, float(rng.uniform(-9, 9)), float(rng.uniform(-1, 16)), bool(rng.integers(2)))

    def off(action) -> float:
        found = codec.decode(scene, action)
        return abs(found.x - wanted.x) + abs(found.y - wanted.y)

    encoded = codec.encode(scene, wanted)
    assert codec.decode(scene, encoded)._replace(x=0, y=0) == wanted._replace(x=0, y=0)
    least = off(encoded)
    for _ in range(60):
        action, _ = placing(codec, scene, rng)
        action[0] = encoded[0]
        assert off(action) >= least - 1e-9


@every_codec
@some
@given(any_scenes, seeds)
def test_a_mirrored_action_places_the_mirror_image_in_the_mirrored_scene(codec, scene, seed):
    rng = np.random.default_rng(seed)
    action, placement = placing(codec, scene, rng)
    there = mirrored(scene)
    image = codec.decode(there, codec.mirror(action).tolist())
    assert (image.slot, image.sticky) == (placement.slot, placement.sticky)
    assert (image.x, image.y) == pytest.approx((-placement.x, placement.y), abs=1e-9)
    here, there = mirrored(place(scene, placement, keep=True)), place(there, image, keep=True)
    np.testing.assert_allclose(here.pose, there.pose, atol=1e-9)
    np.testing.assert_array_equal(here.size, there.size)
    np.testing.assert_array_equal(here.role, there.role)


@every_codec
def test_mirroring_twice_is_nothing_and_many_are_mirrored_as_one(codec):
    rng = np.random.default_rng(0)
    actions = np.array([codec.space(len(SCENE)).sample(rng) for _ in range(60)]).astype(codec.dtype)
    once = codec.mirror(actions)
    np.testing.assert_array_equal(codec.mirror(once), actions)
    np.testing.assert_array_equal(once, [codec.mirror(action) for action in actions])
    np.testing.assert_array_equal(once.reshape(6, 10, -1), codec.mirror(actions.reshape(6, 10, -1)))
    assert (once != actions).any()
    assert once.dtype == codec.dtype


def test_an_object_that_cannot_be_pointed_at_is_picked_from_aside():
    """The floor's centre lies below where one can point, and the nearest point to it is nearer to the first obstacle."""
    codec, scene = ContinuousRelative(), fresh_scene([], [(0.02, 0.17, 1.0, 0.35)])
    wanted = Placement(SMALL_SLOT, -5.0, 0.39)
    assert codec.decode(scene, codec.encode(scene, wanted)) == pytest.approx(wanted)
    hidden = fresh_scene([], [(3.0, 2.0, 1.0, 0.35), (3.0, 2.0, 2.0, 0.35)])  # the second is never the nearest
    assert codec.decode(hidden, codec.encode(hidden, Placement(SMALL_SLOT, 4.2, 2.565))).x == pytest.approx(3.0 + 0.85 + 0.04)


# The mask


def brute_force(scene, codec) -> np.ndarray:
    """The mask by decoding every action, clipping it, and cutting polygons; NaN where it is too close to call."""
    mask = np.zeros((SLOTS, len(scene), *codec.tail))
    solid = []
    for row in range(len(scene)):
        if scene.role[row] in (Role.BLOCK, Role.OBSTACLE, Role.FLOOR):
            x, y = zip(*corners(scene.pose[row], scene.size[row]), strict=True)
            solid.append((row, min(x), max(x), min(y), max(y)))
    for slot, row, *at in np.ndindex(mask.shape):
        placement = codec.decode(scene, (slot, row, *at, 0))
        if placement == INVALID_EDGE:
            continue
        x, y = min(max(placement.x, PLACE_X[0]), PLACE_X[1]), min(max(placement.y, PLACE_Y[0]), PLACE_Y[1])
        w, h = scene.size[slot].tolist()
        free = 1.0
        for other, left, right, low, high in solid:
            if x - w / 2 > right + 0.01 or x + w / 2 < left - 0.01 or y - h / 2 > high + 0.01 or y + h / 2 < low - 0.01:
                continue  # not even close
            area = shared_area((x, y, 0.0), (w, h), scene.pose[other], scene.size[other])
            if area > 1e-6:
                free = 0.0
                break
            if area > 0 or distance((x, y, 0.0), (w, h), scene.pose[other], scene.size[other]) < 1e-6:
                free = np.nan
        mask[slot, row, *at] = free
    return mask


def check_mask(scene, codec) -> tuple[int, int]:
    """Compares the mask with brute force; returns how many actions are free and how many are not."""
    mask, expected = codec.mask(scene), brute_force(scene, codec)
    clear = np.isfinite(expected)
    assert clear.mean() > 0.95
    np.testing.assert_array_equal(mask[clear], expected[clear] == 1)
    return int(mask.sum()), int((~mask).sum())


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(obstacles, blocks, st.sampled_from([4, 15]))
def test_the_mask_is_what_brute_force_says_wherever_things_lie(obstacles_, blocks_, n):
    check_mask(with_blocks(fresh_scene([(1.0, 1.0, 2.1, 0.7)], obstacles_), blocks_), DiscreteRelative(n))


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(obstacles, blocks)
def test_the_mask_with_offsets_in_both_directions_is_what_brute_force_says(obstacles_, blocks_):
    check_mask(with_blocks(fresh_scene([(1.0, 1.0, 2.1, 0.7)], obstacles_), blocks_), DiscreteRelativeXY(5))


@pytest.mark.parametrize("name", TASKS)
def test_the_mask_is_what_brute_force_says_in_episodes(name):
    some, none = 0, 0
    for seed in range(2):
        states = played(name, "hardest", seed, careful=True)
        scene = states[min(len(states) - 2, 6)].scene
        free, taken = check_mask(scene, DiscreteRelative())
        some, none = some + free, none + taken
        check_mask(scene, DiscreteRelativeXY(4))
    assert some > 100
    assert none > 100


def test_the_mask_sees_a_gap_between_leaning_blocks_that_their_boxes_do_not_show():
    lean = build(Placement(SMALL_SLOT, 0.0, 0.39), Placement(LARGE_SLOT, 1.2, 2.0))
    assert abs(lean.pose[-1, 2]) > 0.2
    assert all(check_mask(lean, DiscreteRelative()))


@pytest.mark.parametrize("codec", [DiscreteRelative(), DiscreteRelativeXY(6)], ids=lambda codec: codec.name)
@pytest.mark.parametrize("name", TASKS)
def test_an_action_is_legal_exactly_when_step_finds_neither_a_collision_nor_an_invalid_edge(name, codec, monkeypatch):
    states = [state for seed in range(3) for state in played(name, "hardest", seed, careful=True)[:6] if not state.ended][-1:]
    monkeypatch.setattr(episode, "settle", lambda scene, record: Settled(scene, False, 0, None))  # what follows does not matter here
    for state in states:
        mask = codec.mask(state.scene)
        for index in np.ndindex(mask.shape):
            ended = step(state, codec.decode(state.scene, (*index, 0))).state.ended
            assert mask[index] == (ended not in ("spawn_collision", "invalid_edge", "bad_choice"))


def test_a_used_block_has_no_legal_action():
    scene = build(Placement(SMALL_SLOT, 0.0, 0.39))
    used = place(scene, Placement(3, 3.0, 0.4), keep=False)
    mask = DiscreteRelative().mask(used)
    assert not mask[3].any()
    assert mask[4].any()
    assert mask[4, 3].any()
    for slot in range(SLOTS):
        if used.role[slot] == Role.AVAILABLE:
            used = place(used, Placement(slot, 0.0, 10.0), keep=False)
    assert not DiscreteRelative().mask(used).any()


def test_used_slots_end_absolute_actions_as_bad_choice_and_relative_ones_as_invalid_edge():
    state = State(fresh_scene([], [(0.0, 0.35, 1.0, 0.35)]), "covering_hard", 0)
    state = step(state, Placement(0, -5.0, 0.36)).state
    assert state.ended is None
    actions = {
        "continuous_absolute": (-1, 0.5, -0.9, 0),
        "continuous_relative": (-1, 0.5, -0.9, 0.2, 0),
        "discrete_absolute": (0, 1, 50, 0),
        "discrete_relative": (0, FLOOR, 9, 0),
        "discrete_relative_xy": (0, FLOOR, 9, 14, 0),
    }
    ended = {name: step(state, codec().decode(state.scene, actions[name])).state.ended for name, codec in CODECS.items()}
    assert ended == {
        "continuous_absolute": "bad_choice",
        "continuous_relative": "bad_choice",
        "discrete_absolute": "bad_choice",
        "discrete_relative": "invalid_edge",
        "discrete_relative_xy": "invalid_edge",
    }


def test_a_legal_relative_placement_on_a_block_rests_on_it():
    scene = build(Placement(LARGE_SLOT, 0.0, 0.39))
    for i in range(4, 11):
        placement = DiscreteRelative().decode(scene, (SMALL_SLOT, FIRST, i, 0))
        assert DiscreteRelative().mask(scene)[SMALL_SLOT, FIRST, i]
        after = build(placement, scene=scene)
        assert after.pose[-1, 1] == pytest.approx(1.05, abs=0.02)
        assert [FIRST, FIRST + 1] in after.contact.tolist()
