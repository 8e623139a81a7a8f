"""dm_env environments pass dm_env's own checks, and mean what the Gymnasium ones do."""

import unittest

import numpy as np
import pytest

pytest.importorskip("dm_env", reason="dm_env is not installed (extra dm)")
pytest.importorskip("tree", reason="dm_env's test utilities need dm-tree (extra dm)")

from dm_env import StepType, test_utils

from trilith.envs.dm import DmConstruction
from trilith.world.scene import Role


class Checks(test_utils.EnvironmentTestMixin):
    """Whole episodes of what the spec allows, legal or not."""

    wrapper: str

    def make_object_under_test(self):
        return DmConstruction("connecting", self.wrapper, level=0, seed=0)

    def make_action_sequence(self):
        rng = np.random.default_rng(0)
        spec = self.environment.action_spec()
        for _ in range(30):
            yield {
                name: np.asarray(rng.integers(each.minimum, each.maximum + 1) if each.dtype.kind == "i" else rng.uniform(-1, 1), each.dtype)
                for name, each in spec.items()
            }


class TestDiscreteRelative(Checks, unittest.TestCase):
    wrapper = "discrete_relative"


class TestContinuousAbsolute(Checks, unittest.TestCase):
    wrapper = "continuous_absolute"


def test_an_edge_in_either_direction_places_the_block_by_the_object():
    totals = []
    for forward in (True, False):
        env = DmConstruction("silhouette", level=0, seed=4)
        seen = env.reset().observation
        edges = slice(int(seen["n_edge"][0]))
        scene = env.env.state.scene
        target = int(np.flatnonzero(scene.role == Role.TARGET)[0])
        block = int(np.flatnonzero(scene.size[:7, 0] == scene.size[target, 0])[0])
        ends = (block, target) if forward else (target, block)
        index = int(np.flatnonzero((seen["senders"][edges] == ends[0]) & (seen["receivers"][edges] == ends[1]))[0])
        step = env.step({"Index": index, "x_action": 7, "sticky": 0})
        assert step.step_type == StepType.LAST
        totals.append(step.reward)
        again = env.step({"Index": 0, "x_action": 0, "sticky": 0})
        assert again.step_type == StepType.FIRST
    assert totals == [1.0, 1.0]


def test_an_index_beyond_the_edges_is_an_invalid_edge():
    env = DmConstruction("covering", seed=0)
    seen = env.reset().observation
    assert seen["n_edge"][0] < len(seen["senders"])
    step = env.step({"Index": len(seen["senders"]) - 1, "x_action": 7, "sticky": 0})
    assert (step.step_type, step.reward) == (StepType.LAST, 0.0)
    assert env.env.state.ended == "invalid_edge"
    env.reset()
    with pytest.raises(ValueError, match="x_action"):
        env.step({"Index": 0, "x_action": 99, "sticky": 0})
    with pytest.raises(ValueError, match=r"x_action 7\.9: must be of the type int32"):
        env.step({"Index": 0, "x_action": 7.9, "sticky": 0})
    with pytest.raises(ValueError, match="must have Index, x_action, sticky"):
        env.step({"Index": 0, "x_action": 7})


def test_a_wrong_wrapper_is_named():
    with pytest.raises(ValueError, match="wrapper_type 'absolute': choose discrete_relative"):
        DmConstruction("covering", "absolute")
