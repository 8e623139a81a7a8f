"""A learner step runs wholly on the device it is told. Where there is no GPU, the device `meta` shows it, which has no data."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from nets.scenes import states
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trilith.agents.base import Episode
from trilith.agents.dqn import learner as learner_module
from trilith.agents.dqn.config import FAST, PAPER, DQNConfig
from trilith.agents.dqn.learner import DQNLearner
from trilith.agents.dqn.policy import DQNPolicy, Exploration, choose, observe
from trilith.nets import attention
from trilith.nets.attend import attend_plain
from trilith.nets.batch import Layout
from trilith.nets.config import NetConfig
from trilith.search.config import SearchConfig

SMALL = replace(FAST, net=NetConfig(width=16, layers=2, heads=2, pair=8, decoder=16, recurrent=2), batch=12, replay_mb=1.0)
GRAPH = replace(SMALL, net=replace(SMALL.net, network="graph"))
CONFIGS = {
    "attention": SMALL,
    "attention, amortised": replace(SMALL, amortise=0.1, search=SearchConfig(3)),
    "attention, edges, not double": replace(SMALL, mask="edges", double=False, clip=0.0),
    "graph": GRAPH,
    "graph, amortised": replace(GRAPH, amortise=0.1, search=SearchConfig(3)),
    "graph, sparse, edges": replace(GRAPH, net=replace(GRAPH.net, connectivity="sparse"), mask="edges", target_rate=0.0, target_period=1),
    "paper": replace(PAPER, net=GRAPH.net, demonstration_share=0.25, replay_mb=1.0),
    "pixels": replace(GRAPH, net=replace(GRAPH.net, network="pixels")),
    "pixel-attention": replace(SMALL, net=replace(SMALL.net, network="pixel-attention")),
    "graph, absolute": replace(GRAPH, actions="absolute", mask="edges", mirror=False, first_demonstrations=0, demonstrations=0.0),
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
    """A learner that remembers short episodes of any actions that the mask allows, some with what a search found."""
    learner = DQNLearner(config, "covering_hard", seed=0, device=device)
    records = observe(learner.layout, states("covering_hard", 24))
    rng = np.random.default_rng(0)
    here = DQNLearner(config, "covering_hard", seed=1).net
    choices = choose(here, records, np.ones(len(records), dtype=bool), [rng] * len(records))
    some = [i for i, choice in enumerate(choices) if choice is not None]
    actions = np.array([choices[i] for i in some], np.int32)
    for k in range(0, len(some) - 2, 3):
        steps = np.zeros(3, np.dtype([*learner.policy.dtype.descr, ("reward", "f4")]))
        steps["state"], steps["action"], steps["reward"] = records[some[k : k + 3]], actions[k : k + 3], rng.random(3)
        if config.amortise:
            steps["tried"] = np.where((np.arange(3) < k % 4)[None, :, None], actions[k : k + 3, None], -1)
            steps["found"] = rng.random((3, 3))
        for demonstrated in (False, True):
            learner.add(Episode(steps, 0, 1.0, demonstrated, None if demonstrated else Exploration(0.0, (4.0, 4.0))))
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
    assert [each.shape for each in read] == [()] * 4
    kept = [value for slots in learner.optimiser.state.values() for value in slots.values() if value.dim()]
    tensors = [*read, *kept, *(each for net in (learner.net, learner.target) for each in (*net.parameters(), *net.buffers()))]
    assert len(kept) > 10
    assert {each.device.type for each in tensors} == {"meta"}


@pytest.mark.parametrize("name", ["attention, amortised", "graph, amortised", "paper", "graph, absolute"])
def test_a_learner_step_is_the_same_by_the_way_of_other_devices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of batches on another device, with data: a copy of each, and the plain form of attention."""
    torch.set_num_threads(1)
    learners, unpack = [], Layout.unpack
    for other in (False, True):
        learner = filled(CONFIGS[name])
        if other:
            monkeypatch.setattr(Layout, "unpack", lambda *given, **named: unpack(*given, **named).to("cpu"))
            monkeypatch.setattr(attention, "attend", attend_plain)
        figures = [learner.step(np.random.default_rng(i)) for i in range(2)]
        learners.append((figures, learner))
    (first, one), (second, two) = learners
    for here, there in zip(first, second, strict=True):
        assert here == pytest.approx(there, rel=1e-4)
    for here, there in zip(one.net.parameters(), two.net.parameters(), strict=True):
        torch.testing.assert_close(here, there, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["attention", "graph", "paper", "graph, absolute"])
def test_actions_values_and_weights_come_back_from_the_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the way back from `meta`, whatever was there is 0, masks are True. What is read without being copied first raises."""
    config = CONFIGS[name]
    learner = DQNLearner(config, "covering_hard", seed=0, device="meta")
    monkeypatch.setattr(Tensor, "cpu", lambda self: torch.full(self.shape, self.dtype == torch.bool, dtype=self.dtype))
    found = states("covering_hard", 4)
    agent, records = learner.policy.agent, observe(learner.layout, found)
    assert agent.net.device.type == "meta"
    assert len(agent.act(found, [np.random.default_rng(0)] * 4)) == len(agent.priors(found)) == 4
    chosen = choose(agent.net, records, np.arange(4) < 2, [np.random.default_rng(0)] * 4)
    assert all(action is not None for action in chosen)
    weights = learner.policy.weights()
    DQNPolicy(config, "covering_hard", beyond=False).load(weights)  # a policy on the CPU takes them
    arrays, facts = learner.state()
    assert all(isinstance(array, np.ndarray) for array in arrays.values())
    assert facts["steps"] == 0
