"""Agents that need no training keep to their own generator and, where they say so, to what is legal."""

import sys

import numpy as np
import pytest
from worlds import played

from trilith.agents import registry as agents
from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dqn.policy import make_net, make_schema
from trilith.agents.random_agents import LegalAgent, RandomAgent
from trilith.agents.registry import AGENTS, available, code_of, fingerprint, load, trained_for
from trilith.agents.weights import save_weights
from trilith.networks.config import NetConfig
from trilith.search.config import SearchConfig
from trilith.utils.modules import import_own
from trilith.world.episode import State, start, step
from trilith.world.scene import Placement, fresh_scene, place
from trilith.world.tasks import TASKS

AGENT_CLASSES = [RandomAgent, LegalAgent]


def states() -> list[State]:
    return [state for task in TASKS for state in played(task, "all", 3) if not state.ended]


@pytest.mark.parametrize("agent", AGENT_CLASSES)
def test_what_an_agent_does_in_one_episode_does_not_depend_on_the_others(agent):
    moments = states() * 10
    together = agent().act(moments, [np.random.default_rng(k) for k in range(len(moments))])
    alone = [agent().act([state], [np.random.default_rng(k)])[0] for k, state in enumerate(moments)]
    assert together == alone
    assert len(set(together)) > 3
    assert agent().act([], []) == []


@pytest.mark.parametrize("task", TASKS)
def test_a_legal_agent_never_overlaps_anything_nor_picks_an_invalid_edge(task):
    for seed in range(40):
        assert played(task, "all", seed)[-1].ended in ("obstacle_hit", "complete", "max_steps")


def test_a_legal_agent_is_sticky_half_of_the_time_and_uses_every_block():
    state = start("connecting", 0, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    placements = [LegalAgent().act([state], [rng])[0] for _ in range(600)]
    assert np.mean([p.sticky for p in placements]) == pytest.approx(0.5, abs=4 * 0.5 / 600**0.5)
    assert {p.slot for p in placements} == set(range(7))


def test_a_legal_agent_without_a_legal_action_stops():
    scene = fresh_scene([], [(0.0, 0.35, 1.0, 0.35)])
    for slot in range(7):
        scene = place(scene, Placement(slot, -6.0 + 2 * slot, 0.36), keep=False)
    assert LegalAgent().act([State(scene, "covering_hard", 0)], [np.random.default_rng(0)]) == [None]


def test_a_random_agent_mostly_ends_its_episodes_at_once():
    reasons = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        state = start("covering", 0, rng)
        while not state.ended:
            state = step(state, RandomAgent().act([state], [rng])[0]).state
        reasons.append(state.ended)
    assert {"invalid_edge", "spawn_collision"} <= set(reasons)
    assert reasons.count("invalid_edge") > 100


def test_agents_are_found_by_name():
    assert isinstance(load("random"), RandomAgent)
    assert isinstance(load("legal"), LegalAgent)
    with pytest.raises(ValueError, match=f"no agent 'bricklayer'.*{', '.join(list(AGENTS)[:2])}"):
        load("bricklayer")


def test_a_shipped_agent_builds_in_the_tasks_it_was_trained_for(tmp_path, monkeypatch):
    monkeypatch.setattr(agents, "ZOO", tmp_path)
    assert available() == [*AGENTS]
    config = DQNConfig(net=NetConfig(width=16, layers=1, heads=2, decoder=16))
    for task in ("silhouette", "covering_hard"):
        weights = make_net(config, make_schema(config, task)).weights()
        save_weights(tmp_path / "tiny" / f"{task}.safetensors", "dqn", config, task, weights, {})
    assert available() == [*AGENTS, "tiny"]
    assert [trained_for("tiny", task) for task in TASKS] == [task in ("silhouette", "covering_hard") for task in TASKS]
    shipped = load("tiny")
    for task in ("silhouette", "covering_hard"):
        states, rngs = [start(task, "hardest", np.random.default_rng(k)) for k in range(3)], [np.random.default_rng(0)] * 3
        weights = tmp_path / "tiny" / f"{task}.safetensors"
        assert shipped.act(states, rngs) == load(str(weights)).act(states, rngs)
        assert len(load("tiny", SearchConfig(5)).act(states, rngs)) == 3
        assert fingerprint("tiny", task) == fingerprint(str(weights), task)
        assert trained_for(str(weights), task)
    assert fingerprint("tiny", "silhouette") != fingerprint("tiny", "covering_hard")
    with pytest.raises(ValueError, match="not trained for covering: choose covering_hard, silhouette"):
        shipped.act([start("covering", 0, np.random.default_rng(0))], [np.random.default_rng(0)])
    for ask in (fingerprint, lambda name, task: agents.code_of([name], task, None)):
        with pytest.raises(ValueError, match="the agent 'tiny' was not trained for covering: choose covering_hard, silhouette"):
            ask("tiny", "covering")
    assert fingerprint("legal", "covering") is None
    assert agents.shipped("../tiny") == {}


OWN = {
    "own_agent_here": "",
    "own_net_here": "",
    "own_search_here": "",
    "own_world_here": "",
    "own_task_here": "from trilith.world.tasks.covering import Covering\nclass Scaled(Covering):\n    pass\n",
    "own_instance_here": "from own_task_here import Scaled\nBIG = Scaled()\n",
    "own_policy_here": "",
    "own_algorithm_here": (
        "from dataclasses import dataclass\n"
        "from trilith.agents.base import Algorithm\n"
        "@dataclass(frozen=True)\n"
        "class Config:\n"
        "    width: int = 8\n"
        "ALGORITHM = Algorithm('mine', Config, (), policy='own_policy_here:Policy', learner='', needed=('width',))\n"
    ),
}
"""Modules of a user, as far as a fingerprint reads them."""


@pytest.mark.parametrize(
    ("agent", "task", "search", "files"),
    [
        ("own_agent_here:Agent", "covering", None, ["own_agent_here"]),
        ("legal", "own_task_here:Scaled", None, ["own_task_here"]),
        ("legal", "own_instance_here:BIG", None, ["own_instance_here", "own_task_here"]),
        ("legal", "covering", {"algorithm": "own_search_here:Search", "world": "simulator"}, ["own_search_here"]),
        ("legal", "covering", {"algorithm": "mcts", "world": "own_world_here:World"}, ["own_world_here"]),
        ("net.safetensors", "covering", None, ["own_net_here"]),
        ("algorithm.safetensors", "covering", None, ["own_algorithm_here", "own_policy_here"]),
    ],
    ids=["agent", "task", "instance", "search", "world", "network", "algorithm"],
)
def test_everything_of_the_users_own_is_in_the_fingerprint(tmp_path, monkeypatch, agent, task, search, files):
    for name, text in OWN.items():
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    kept = {name: import_own(name) for name in OWN}
    config = DQNConfig(net=NetConfig(network="own_net_here:Net"))
    save_weights(tmp_path / "net.safetensors", "dqn", config, "covering", {}, {})
    save_weights(tmp_path / "algorithm.safetensors", "own_algorithm_here", kept["own_algorithm_here"].Config(), "covering", {}, {})
    code = code_of([agent], task, search)["code"]
    assert [name.removesuffix(".py") for name in code if name.endswith(".py")] == files
