"""What the attention network is told of a placement is what builders forecast of it."""

import numpy as np
import pytest
from nets.scenes import states

from trilith.agents.dqn.policy import observe
from trilith.builders.options import options
from trilith.nets.attention import AttentionNet
from trilith.nets.batch import KIND_OF_SLOT, Layout, reference_rows
from trilith.nets.forecast import forecast
from trilith.world.actions import DiscreteRelative, DiscreteRelativeXY
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
    found, other = forecast(layout, plain, *which), forecast(layout, mirrored, *which)[:, ::-1]
    other[..., 0] *= -1
    np.testing.assert_allclose(found, other, atol=2e-3)


def test_a_network_that_is_told_of_places_along_two_axes_is_refused() -> None:
    layout = Layout.of(get_task("silhouette"), DiscreteRelativeXY(), False)
    with pytest.raises(ValueError, match="place 8"):
        AttentionNet(layout, "edges", place=8)
