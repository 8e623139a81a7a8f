"""What the attention network is told of a placement is what builders forecast of it."""

import numpy as np
import pytest
from nets.scenes import states
from worlds import with_blocks

from trilith.agents.dqn.policy import observe
from trilith.builders.options import options
from trilith.nets.attention import AttentionNet
from trilith.nets.batch import KIND_OF_SLOT, Layout, reference_rows
from trilith.nets.forecast import forecast
from trilith.world.actions import DiscreteRelative, DiscreteRelativeXY
from trilith.world.scene import FLOOR, fresh_scene
from trilith.world.tasks import get_task


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


@pytest.mark.parametrize("task", ["silhouette", "connecting", "covering_hard"])
def test_in_the_mirrored_scene_places_are_mirrored(task: str) -> None:
    layout = Layout.of(get_task(task), DiscreteRelative(), True)
    records = observe(layout, states(task, 12))
    swapped = np.ones(len(records), dtype=bool)
    plain, mirrored = layout.arrays(records), layout.arrays(records, swapped)
    which = np.nonzero(plain.present[:, None].repeat(3, axis=1))
    found, other = forecast(layout, plain, *which, ahead=True), forecast(layout, mirrored, *which, ahead=True)[:, ::-1]
    other[..., 0] *= -1
    other[..., [11, 13]] = other[..., [13, 11]]  # from the left and from the right end
    np.testing.assert_allclose(found, other, atol=2e-3)


def test_the_way_up_ends_at_an_obstacle_and_the_nearest_target_is_an_open_one() -> None:
    """Small blocks on the floor, under an obstacle that reaches from -1 to 1; one of two targets has a block over it."""
    scene = with_blocks(fresh_scene([(-3.0, 0.35, 0.35, 0.35), (3.0, 2.45, 0.35, 0.35)], [(0.0, 1.75, 2.0, 0.35)]), [(0, -3.0, 0.35, 0.0)])
    layout = Layout.of(get_task("connecting"), DiscreteRelative(61), False)
    floor = int(np.flatnonzero(reference_rows(scene) == FLOOR)[0])
    one = np.zeros(1, dtype=np.int64)
    [places] = forecast(layout, layout.arrays(layout.pack([scene])), one, one, one + floor, ahead=True)
    lying = places[:, 7] == 1
    x = 7 * places[lying, 0]
    assert (np.abs(x) < 1).sum() > 2
    for column, shift in ((11, -0.35), (12, 0.0), (13, 0.35)):
        free = np.where(np.abs(x + shift) < 1.35, 1.75 - 0.175 - 0.7, 4.2)
        sure = np.abs(np.abs(x + shift) - 1.35) > 1e-3
        np.testing.assert_allclose(4 * places[lying, column][sure], free[sure], atol=1e-3)
    near = np.abs(x - 3.0) < 4.2
    np.testing.assert_allclose(4 * places[lying, 14], np.minimum(np.abs(x - 3.0), 4.2), atol=1e-3)
    np.testing.assert_allclose(4 * places[lying, 15], np.where(near, 2.45 - 0.35, 4.2), atol=1e-3)


def test_a_network_that_is_told_of_places_along_two_axes_is_refused() -> None:
    layout = Layout.of(get_task("silhouette"), DiscreteRelativeXY(), False)
    with pytest.raises(ValueError, match="place 8"):
        AttentionNet(layout, "edges", place=8)
