"""A learner step runs wholly on the device it is told. Where there is no GPU, the device `meta` shows it, which has no data."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from networks.scenes import choices, states
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trilith.agents.base import Episode
from trilith.agents.dqn import learner as learner_module
from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dqn.learner import DQNLearner
from trilith.agents.dqn.policy import DQNPolicy, Exploration, observe
from trilith.agents.dqn.recipes import GN_DQN, OBJECTS
from trilith.networks.config import NetConfig
from trilith.networks.inputs.scene_batch import ReplaySchema
from trilith.networks.layers import attention
from trilith.networks.layers.attention import relational_attention_plain
from trilith.networks.q import objects
from trilith.networks.q.objects import look_by_tensors

pytestmark = pytest.mark.slow

NET = NetConfig(width=16, layers=2, heads=2, pair=8, decoder=16, message=8, token=16, recurrent=2)
SMALL = replace(OBJECTS, net=NET, batch=12, replay_mb=1.0, counterfactual_actions=3)
GRAPH = replace(SMALL, net=replace(NET, network="graph"))
CONFIGS = {
    "objects": replace(SMALL, net=replace(NET, clock=True)),
    "objects, no margin, no counterfactuals": replace(SMALL, margin_weight=0.0, counterfactual_actions=0),
    "objects, edges, not double": replace(SMALL, mask="edges", double=False, max_grad_norm=0.0),
    "graph": GRAPH,
    "graph, sparse, edges": replace(GRAPH, net=replace(GRAPH.net, connectivity="sparse"), mask="edges", tau=0.0, target_period=1),
    "paper": replace(GN_DQN, net=GRAPH.net, correction_share=0.25, replay_mb=1.0),
    "pixels": replace(GRAPH, net=replace(GRAPH.net, network="pixels")),
    "pixel-attention": replace(SMALL, net=replace(NET, network="pixel-attention")),
    "graph, absolute": replace(GRAPH, actions="absolute", mask="edges", mirror=False, corrections_per_update=0.0),
}


class OneDevice(TorchDispatchMode):
    """Raises where an operation mixes devices, numbers aside; only copies may."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        devices = {each.device.type for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor) and each.dim()}
        self.seen |= devices
        copies = func.overloadpacket in (torch.ops.aten.copy_, torch.ops.aten._to_copy)
        assert len(devices) < 2 or copies, f"{func} is given tensors on {sorted(devices)}"
        return func(*args, **(kwargs or {}))


def filled(config: DQNConfig, device: str = "cpu") -> DQNLearner:
    """A learner that remembers short episodes of any actions that the mask allows, with others that were simulated beside them."""
    learner = DQNLearner(config, "covering_hard", seed=0, device=device)
    found = states("covering_hard", 24)
    records, scenes = observe(learner.schema, found), observe(learner.schema.scenes, found)
    rng = np.random.default_rng(0)
    here = DQNLearner(config, "covering_hard", seed=1).net
    drawn = [choices(here, records, np.ones(len(records), dtype=bool), [rng] * len(records)) for _ in range(3)]
    some = [i for i, choice in enumerate(drawn[0]) if choice is not None]
    actions, *others = (np.array([each[i] for i in some], np.int32) for each in drawn)
    for k in range(0, len(some) - 2, 3):
        steps = np.zeros(3, np.dtype([*learner.policy.dtype.descr, ("reward", "f4")]))
        steps["state"], steps["action"], steps["reward"] = records[some[k : k + 3]], actions[k : k + 3], rng.random(3)
        if config.counterfactual_actions:  # of three that there may be two, of which one may have ended the episode
            steps["beside"] = -1
            steps["beside"][:, 0], steps["beside"][:, 1] = (each[k : k + 3] for each in others)
            steps["beside_reward"][:, :2] = rng.random((3, 2))
            steps["beside_ended"][:, 0] = rng.random(3) < 0.5
            if learner.net.values_states:
                steps["after"][:, :2] = scenes[rng.integers(len(scenes), size=(3, 2))]
        for correction in (False, True):
            learner.add(Episode(steps, 0, correction, None if correction else Exploration(0.0, (4.0, 4.0))))
    return learner


@pytest.mark.parametrize("name", CONFIGS)
def test_a_whole_learner_step_leaves_no_tensor_behind(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Tensor] = []

    def nothing(figures: dict[str, Tensor]) -> dict[str, float]:
        """Instead of numbers, which `meta` does not have."""
        read.extend(figures.values())
        return dict.fromkeys(figures, 0.0)

    monkeypatch.setattr(learner_module, "read", nothing)
    learner = filled(CONFIGS[name], device="meta")
    with OneDevice() as watched:
        for _ in range(2):
            learner.step(np.random.default_rng(0))
    assert "meta" in watched.seen
    assert learner.steps == 2
    assert [each.shape for each in read] == [()] * (10 if name.startswith("objects") else 6)
    kept = [value for slots in learner.optimiser.state.values() for value in slots.values() if value.dim()]
    tensors = [*read, *kept, *(each for net in (learner.net, learner.target) for each in (*net.parameters(), *net.buffers()))]
    assert len(kept) > 10
    assert {each.device.type for each in tensors} == {"meta"}


@pytest.mark.parametrize("name", ["objects", "objects, edges, not double", "graph", "paper", "graph, absolute"])
def test_a_learner_step_is_the_same_by_the_way_of_other_devices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of batches on another device, with data: a copy of each, and the plain forms of compiled loops."""
    torch.set_num_threads(1)
    learners, unpack = [], ReplaySchema.unpack
    for other in (False, True):
        learner = filled(CONFIGS[name])
        if other:
            monkeypatch.setattr(ReplaySchema, "unpack", lambda *given, **named: replace(unpack(*given, **named), device="cpu"))
            monkeypatch.setattr(attention, "relational_attention", relational_attention_plain)
            monkeypatch.setattr(objects, "look", look_by_tensors)
        figures = [learner.step(np.random.default_rng(i)) for i in range(2)]
        learners.append((figures, learner))
    (first, one), (second, two) = learners
    for here, there in zip(first, second, strict=True):
        assert here == pytest.approx(there, rel=1e-4)
    for here, there in zip(one.net.parameters(), two.net.parameters(), strict=True):
        torch.testing.assert_close(here, there, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["objects", "graph", "paper", "graph, absolute"])
def test_actions_values_and_weights_come_back_from_the_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the way back from `meta`, whatever was there is 0, masks are True. What is read without being copied first raises."""
    config = CONFIGS[name]
    learner = DQNLearner(config, "covering_hard", seed=0, device="meta")
    monkeypatch.setattr(Tensor, "cpu", lambda self: torch.full(self.shape, self.dtype == torch.bool, dtype=self.dtype))
    found = states("covering_hard", 4)
    agent, records = learner.policy.agent, observe(learner.schema, found)
    assert agent.net.device.type == "meta"
    assert len(agent.act(found, [np.random.default_rng(0)] * 4)) == len(agent.priors(found)) == 4
    chosen = choices(agent.net, records, np.arange(4) < 2, [np.random.default_rng(0)] * 4)
    assert all(action is not None for action in chosen)
    if name == "objects":
        assert agent.net.state_values(observe(learner.schema.scenes, found)).tolist() == [0.0] * 4
    weights = learner.policy.weights()
    DQNPolicy(config, "covering_hard", beyond=False).load(weights)  # a policy on the CPU takes them
    arrays, facts = learner.state()
    assert all(isinstance(array, np.ndarray) for array in arrays.values())
    assert facts["steps"] == 0
