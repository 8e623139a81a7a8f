"""What agents that see segmented images say they see."""

import json
import subprocess
import sys
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pytest
from networks.scenes import states

import trilith.web.jobs as work
from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dqn.policy import DQNAgent, make_acting_net, make_net, make_schema
from trilith.agents.dqn.recipes import CNN_GN_DQN, FROM_PIXELS, OBJECTS
from trilith.render.pictures import views_picture
from trilith.world.actions import reference_rows
from trilith.world.observations.image import PIXELS
from trilith.world.observations.segments import segments
from trilith.world.scene import SLOTS, Role

SMALL = replace(FROM_PIXELS, net=replace(FROM_PIXELS.net, width=16, decoder=16))
CONFIGS = {
    "attention": SMALL,
    "graph": replace(SMALL, net=replace(CNN_GN_DQN.net, width=16)),
    "graph, no mask": replace(CNN_GN_DQN, net=replace(CNN_GN_DQN.net, width=16)),
}


def agent_of(config: DQNConfig) -> DQNAgent:
    schema = make_schema(config, "covering_hard")
    net = make_acting_net(config, schema)
    net.load(make_net(config, schema).weights())
    return DQNAgent(net)


@pytest.mark.parametrize("name", CONFIGS)
def test_views_are_the_windows_of_segments_and_their_highest_values(name: str) -> None:
    agent = agent_of(CONFIGS[name])
    for state in states("covering_hard", 3):
        views, whole = agent.views(state), segments(state.scene)
        slots = np.flatnonzero(state.scene.role[:SLOTS] == Role.AVAILABLE)
        assert [view.row for view in views] == [*slots, *reference_rows(state.scene)]
        for view in views:
            height, width, _ = view.pixels.shape
            shown = np.zeros((PIXELS, PIXELS, 4), np.float32)
            shown[view.top : view.top + height, view.left : view.left + width] = view.pixels
            np.testing.assert_allclose(shown, whole[view.row, ..., :4], atol=1e-6)
        [prior] = agent.priors([state])
        most = max(view.value for view in views[len(slots) :] if view.value is not None)
        if name != "graph, no mask":  # else blocks are receivers too
            assert most == pytest.approx(prior.values[: len(prior.values) - agent.stops].max())
            assert max(view.value for view in views[: len(slots)] if view.value is not None) == pytest.approx(most)


def test_agents_that_see_objects_have_no_views() -> None:
    assert agent_of(OBJECTS).views(states("covering_hard", 1)[0]) == []


def test_the_page_is_told_what_is_seen() -> None:
    agent, [state] = agent_of(SMALL), states("covering_hard", 1)
    work._agents[("seer", 0), False] = agent
    answer = json.loads(work.ideas(state, ("seer", 0), 0, 2))
    del work._agents[("seer", 0), False]
    views = agent.views(state)
    assert [each["row"] for each in answer["seen"]] == [view.row for view in views]
    for each, view in zip(answer["seen"], views, strict=True):
        pixels = np.frombuffer(b64decode(each["pixels"]), np.uint8).reshape(-1, each["width"], 4) / 255
        assert pixels.shape == view.pixels.shape
        np.testing.assert_allclose(pixels[..., :3] * pixels[..., 3:], view.pixels[..., :3], atol=0.01)
        assert each["value"] == (None if view.value is None else pytest.approx(view.value, abs=1e-4))


def test_a_picture_frames_each_window_in_its_segmented_image() -> None:
    views = agent_of(SMALL).views(states("covering_hard", 1)[0])
    drawn = views_picture([(str(view.value), view.top, view.left, view.pixels) for view in views], columns=3, scale=2)
    alone = views_picture([("", views[0].top, views[0].left, views[0].pixels)])
    assert drawn.shape[1] > 3 * 2 * PIXELS
    assert drawn.shape[0] > -(-len(views) // 3) * 2 * PIXELS
    blue = (alone[..., 2] > 200) & (alone[..., 0] < 50)
    assert blue.any(), "an available block is seen"


def test_shapes_are_known_in_a_process_that_has_made_no_network() -> None:
    """Loading an agent asks for them first, on a device without memory: nothing that is made on import may be there."""
    pytest.importorskip("torch", reason="torch is not installed (extra learn)")
    code = "from trilith.agents.dqn import policy, recipes; print(len(policy.weight_shapes(recipes.CNN_GN_DQN, 'covering_hard')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(make_net(CNN_GN_DQN, make_schema(CNN_GN_DQN, "covering_hard")).state_dict())
