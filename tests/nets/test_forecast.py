"""What the attention network is told of a placement is what builders forecast of it."""

from itertools import combinations

import numpy as np
import pytest
from nets.scenes import states

from trilith.agents.dqn.policy import observe
from trilith.builders.connecting import GRIP, cheapest
from trilith.builders.options import options
from trilith.builders.statics import stands
from trilith.nets.attention import AttentionNet
from trilith.nets.batch import KIND_OF_SLOT, KIND_WIDTHS, Layout, reference_rows
from trilith.nets.finish import ENOUGH
from trilith.nets.forecast import Told, forecast
from trilith.nets.ways import NO_WAY, blocks_needed, make_ways
from trilith.world.actions import DiscreteRelative, DiscreteRelativeXY
from trilith.world.episode import State
from trilith.world.scene import Placement, Role, Scene, fresh_scene, place
from trilith.world.tasks import get_task
from trilith.world.tasks.silhouette import filled

EVERYTHING = Told(True, True, True, True, True)


@pytest.mark.parametrize("task", ["silhouette", "connecting", "covering", "covering_hard"])
def test_the_forecast_is_that_of_the_builders(task: str) -> None:
    layout = Layout.of(get_task(task), DiscreteRelative(), True)
    found_states = states(task, 12)
    arrays = layout.arrays(observe(layout, found_states))
    for i, scene in enumerate(state.scene for state in found_states):
        known = options(scene)
        kind, ref = KIND_OF_SLOT[known.slot], np.searchsorted(reference_rows(scene), known.ref)
        found = forecast(layout, arrays, np.full_like(kind, i), kind, ref)[np.arange(len(known)), known.offset]
        for column, wanted in ((0, known.x / 7), (1, known.rest / 4), (2, np.minimum(known.drop / 2, 2)), (3, known.balance.clip(-1, 1))):
            np.testing.assert_allclose(found[:, column], wanted, atol=1e-4)
        np.testing.assert_array_equal(found[:, 5], known.held)
        np.testing.assert_array_equal(found[:, 6], known.safe)


@pytest.mark.parametrize("task", ["silhouette", "connecting", "covering", "covering_hard"])
def test_what_would_stand_is_what_the_statics_of_the_builders_say(task: str) -> None:
    """Of placements in scenes that stand, beside obstacles, whose block would not tip over by itself."""
    layout = Layout.of(get_task(task), DiscreteRelative(), True)
    found_states = states(task, 24)
    arrays = layout.arrays(observe(layout, found_states))
    right, fall = [], 0
    for i, scene in enumerate(state.scene for state in found_states):
        known = options(scene)
        kind, ref = KIND_OF_SLOT[known.slot], np.searchsorted(reference_rows(scene), known.ref)
        found = forecast(layout, arrays, np.full_like(kind, i), kind, ref, EVERYTHING)[np.arange(len(known)), known.offset]
        for k in np.flatnonzero(found[:, 8] == 0)[::5].tolist() if stands(scene) else []:
            for glue, column in ((False, 11), (True, 13)):
                if known.balance[k] > 0 or known.held[k] or glue:
                    there = known.placement(k, glue)._replace(y=float(known.rest[k]))
                    after = stands(place(scene, there, keep=True))
                    right.append(after == (found[k, column] > 0))
                    fall += not after
    assert fall > 5
    assert np.mean(right) > 0.98  # a glued block that joins two groups is weighed as if it lay on them


@pytest.mark.parametrize("task", ["silhouette", "connecting", "covering_hard"])
def test_in_the_mirrored_scene_places_are_mirrored(task: str) -> None:
    layout = Layout.of(get_task(task), DiscreteRelative(), True)
    records = observe(layout, states(task, 12))
    swapped = np.ones(len(records), dtype=bool)
    plain, mirrored = layout.arrays(records), layout.arrays(records, swapped)
    which = np.nonzero(plain.present[:, None].repeat(3, axis=1))
    found, other = forecast(layout, plain, *which, EVERYTHING), forecast(layout, mirrored, *which, EVERYTHING)[:, ::-1]
    other[..., 0] *= -1
    np.testing.assert_allclose(found, other, atol=2e-3)


@pytest.mark.parametrize("task", ["covering", "covering_hard"])
def test_what_a_placement_would_cover_is_what_the_score_says(task: str) -> None:
    rules = get_task(task)
    layout = Layout.of(rules, DiscreteRelative(), True)
    found_states = states(task, 24)
    arrays = layout.arrays(observe(layout, found_states))
    gains = []
    for i, scene in enumerate(state.scene for state in found_states):
        known = options(scene)
        kind, ref = KIND_OF_SLOT[known.slot], np.searchsorted(reference_rows(scene), known.ref)
        found = forecast(layout, arrays, np.full_like(kind, i), kind, ref, EVERYTHING)[np.arange(len(known)), known.offset]
        bare = rules.best(scene) - rules.score(scene)
        for k in range(0, len(known), 5):
            there = known.placement(k)._replace(x=float(known.x[k]), y=float(known.rest[k]))
            gain = rules.score(place(scene, there, keep=True)) - rules.score(scene)
            assert found[k, 18:20] == pytest.approx([gain / 2, gain / bare if bare > 1e-3 else found[k, 19]], abs=1e-3)
            gains.append(gain)
    assert max(gains) > 0.5


def can_be_built(scene: Scene, sticky: frozenset[int], loose: frozenset[int]) -> bool:
    """Whether the open targets of a silhouette can be filled in some order, those of `sticky` by sticky blocks, and all stands."""
    seen, ways = set(), [(scene, sticky | loose)]
    while ways:
        here, left = ways.pop()
        if not left:
            return True
        for target in sorted(left):
            if left - {target} not in seen:
                slot = int(np.argmin(np.abs(scene.size[:7, 0] - scene.size[target, 0])))
                x, y, _ = scene.pose[target]
                after = place(here, Placement(slot, float(x), float(y), target in sticky), keep=True)
                if stands(after, ENOUGH):
                    seen.add(left - {target})
                    ways.append((after, left - {target}))
    return False


def test_the_glue_that_a_silhouette_still_takes_is_the_least_of_all_choices_and_orders() -> None:
    layout = Layout.of(get_task("silhouette"), DiscreteRelative(), True)
    found_states = [state for state in states("silhouette", 60) if stands(state.scene, ENOUGH)]
    arrays = layout.arrays(observe(layout, found_states))
    same, needs = [], set()
    for i, scene in enumerate(state.scene for state in found_states):
        targets = scene.rows(Role.TARGET)
        unfilled = frozenset(targets[~np.asarray(filled(scene), dtype=bool)].tolist())
        if not 0 < len(unfilled) <= 5:
            continue
        fine = [
            set(glued)
            for k in range(4)
            for glued in combinations(unfilled, k)
            if can_be_built(scene, frozenset(glued), unfilled - set(glued))
        ]
        least = min((len(glued) for glued in fine), default=4)
        for target in unfilled:
            kind = np.flatnonzero(np.isclose(KIND_WIDTHS, scene.size[target, 0]))
            ref = np.searchsorted(reference_rows(scene), [target])
            middle = forecast(layout, arrays, np.array([i]), kind, ref, EVERYTHING)[0, layout.offsets // 2]
            wanted = [min((len(g) for g in fine if (target in g) == sticky and len(g) <= least + 1), default=4) for sticky in (False, True)]
            if middle[20]:  # nothing is in the way, and what is below it is there
                same.append((middle[21:23] == [need == least for need in wanted]).all() and (middle[23:25] * 4 == wanted).all())
                needs.update(wanted)
            else:
                assert middle[21:25].tolist() == [0, 0, 1, 1]
    assert len(same) > 30
    assert needs >= {0, 1, 2}
    assert np.mean(same) > 0.95, "one order is looked at, not all"


def test_what_is_no_number_is_no_place() -> None:
    """A learned model may predict anything; compiled loops do not look whether a place is in their tables."""
    ways = np.zeros_like(make_ways())
    assert blocks_needed(ways[0], 0, 0.0, 0.35) == 0
    for x, rest in ((np.nan, 0.35), (np.inf, 0.35), (1e300, 0.35), (-8.0, 0.35), (0.0, np.nan), (0.0, np.inf), (0.0, -3.0)):
        assert blocks_needed(ways[0], 0, x, rest) == NO_WAY


def test_ways_are_as_long_as_those_that_the_planner_finds() -> None:
    layout = Layout.of(get_task("connecting"), DiscreteRelative(), True)
    found_states = states("connecting", 48)
    arrays = layout.arrays(observe(layout, found_states))
    same, lengths = [], set()
    for i, scene in enumerate(state.scene for state in found_states):
        known = options(scene)
        kind, ref = KIND_OF_SLOT[known.slot], np.searchsorted(reference_rows(scene), known.ref)
        found = forecast(layout, arrays, np.full_like(kind, i), kind, ref, EVERYTHING)[np.arange(len(known)), known.offset]
        for seed in range(6):
            chain = cheapest(known, np.random.default_rng(seed))
            if chain is not None:
                reaches, leads, needed = found[chain.root, 15:18]
                assert reaches == (needed == 1)
                same.append(bool(leads) and round(1 / needed - 1) == len(chain.rest))
                lengths.add(len(chain.rest))
            else:
                assert not found[known.safe & (known.right - known.left >= GRIP), 15].any(), "no chain, and yet a target is reached"
    assert lengths >= {0, 1, 2, 3, 4}
    assert np.mean(same) > 0.95


def with_one_target(scene: Scene, target: int) -> Scene:
    """The same scene, its other targets taken away; blocks that lie askew stand upright."""
    box = np.column_stack([scene.pose[:, :2], scene.size])
    one = fresh_scene([tuple(box[target])], [tuple(box[row]) for row in scene.rows(Role.OBSTACLE)])
    for row in scene.rows(Role.BLOCK):
        x, y, width, _ = box[row].tolist()
        one = place(one, Placement(int(np.argmin(np.abs(one.size[:7, 0] - width))), x, y, False), keep=True)
    return one


def test_blocks_that_remain_are_those_of_each_target_by_itself() -> None:
    layout = Layout.of(get_task("connecting"), DiscreteRelative(), True)
    progress = set()
    for state in states("connecting", 24):
        scene = state.scene
        alone = [with_one_target(scene, target) for target in scene.rows(Role.TARGET).tolist()]
        found = []
        for each in (scene, *alone):
            rows = np.concatenate([each.rows(Role.FLOOR), each.rows(Role.BLOCK)])
            kind, ref = np.tile(np.arange(3), len(rows)), np.searchsorted(reference_rows(each), rows).repeat(3)
            arrays = layout.arrays(observe(layout, [State(each, "connecting", state.level)]))
            found.append(forecast(layout, arrays, np.zeros_like(kind), kind, ref, Told(ways=True, remains=True))[..., 11:])
        together, apart = found[0], np.stack(found[1:])
        if np.abs(np.sin(scene.pose[scene.rows(Role.BLOCK), 2])).max(initial=0) < 1e-3:  # what lies askew is not the same
            np.testing.assert_allclose(together[..., 3], apart[..., 3].sum(axis=0), atol=1e-3)
            np.testing.assert_allclose(together[..., 4:], np.moveaxis(np.sort(apart[..., 4:].sum(axis=-1), axis=0), 0, -1), atol=1e-3)
            np.testing.assert_allclose(together[..., :3], apart[..., :3].max(axis=0), atol=1e-3)
            progress.update(np.round(together[..., 3]).ravel().tolist())
    assert progress >= {0, 1}


def test_a_network_that_is_told_of_places_along_two_axes_is_refused() -> None:
    layout = Layout.of(get_task("silhouette"), DiscreteRelativeXY(), False)
    with pytest.raises(ValueError, match="place 8"):
        AttentionNet(layout, "edges", place=8)
