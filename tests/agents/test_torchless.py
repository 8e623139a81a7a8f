"""Agents act without torch: as they would with it, and where it is not installed."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import shell
import torch

from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dqn.policy import DQNAgent, DQNPolicy, make_net, make_schema
from trilith.agents.dqn.recipes import FROM_PIXELS
from trilith.agents.registry import shipped
from trilith.agents.weights import load_policy, save_weights
from trilith.evaluation.play import play
from trilith.evaluation.scene_sets import start_in_set
from trilith.networks.config import NetConfig
from trilith.search.agent import SearchAgent
from trilith.search.config import SearchConfig
from trilith.world.tasks import TASKS

HIDE = """
from importlib.machinery import PathFinder

def find_spec(name, path=None, target=None, found=PathFinder.find_spec):
    return None if name.split(".")[0] in ("torch", "tensorboard", "dm_env") else found(name, path, target)

PathFinder.find_spec = find_spec
"""
"""Runs as a process starts: packages as they are where the extras `learn` and `dm` are not installed."""


@pytest.fixture
def no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in; in every process that is started, torch and what comes with it cannot be imported."""
    (tmp_path / "sitecustomize.py").write_text(HIDE)
    monkeypatch.setitem(shell.ENVIRONMENT, "PYTHONPATH", f"{tmp_path}:{shell.ENVIRONMENT['PYTHONPATH']}")
    return tmp_path


def own_weights(path: Path, config: DQNConfig, task: str) -> Path:
    """A file of fresh weights, and their card."""
    torch.manual_seed(0)
    save_weights(path, "dqn", config, task, make_net(config, make_schema(config, task)).weights(), {})
    return path


def build_as_in_torch(policy: DQNPolicy, task: str) -> None:
    """Compares episodes of an agent, and of one that searches, with those by the form of its network that learns."""
    torch.set_num_threads(1)
    net = make_net(policy.config, make_schema(policy.config, task)).eval()
    net.load(policy.weights())
    for budget, count in ((0, 12), (5, 4)):
        played = []
        for agent in (policy.agent, DQNAgent(net, policy.config.discount)):
            rngs = [np.random.default_rng(i) for i in range(count)]
            starts = [start_in_set(task, "hardest", "test", i) for i in range(count)]
            played.append([recording.placements for recording, _ in play(SearchAgent(agent, SearchConfig(budget)), starts, rngs)])
        assert played[0] == played[1]
    assert any(len(placements) > 1 for placements in played[0]) or task == "silhouette"


@pytest.mark.longest
@pytest.mark.parametrize("task", TASKS)
def test_shipped_agents_and_their_search_build_as_in_torch(task: str) -> None:
    policy, _ = load_policy(shipped("objects")[task])
    assert isinstance(policy, DQNPolicy)
    build_as_in_torch(policy, task)


@pytest.mark.parametrize("task", ["silhouette", "covering_hard"])
def test_so_do_agents_that_see_pixels(task: str, tmp_path: Path) -> None:
    policy, _ = load_policy(own_weights(tmp_path / "own.safetensors", FROM_PIXELS, task))
    assert isinstance(policy, DQNPolicy)
    build_as_in_torch(policy, task)


@pytest.mark.parametrize("agent", ["objects", "pixels.safetensors"])
def test_an_agent_is_loaded_and_builds_in_three_lines(no_torch: Path, agent: str) -> None:
    own_weights(no_torch / "pixels.safetensors", FROM_PIXELS, "covering")
    lines = f"""
import importlib.util, numpy as np, sys, trilith
assert importlib.util.find_spec("torch") is None
state = trilith.start("covering", "hardest", np.random.default_rng(0))
for budget in (0, 5):
    [placement] = trilith.load("{agent}", budget=budget).act([state], [np.random.default_rng(0)])
    print(trilith.step(state, placement).reward)
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", lines], cwd=no_torch, env=shell.ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 2


def test_agents_are_listed_and_evaluated(no_torch: Path) -> None:
    assert "objects" in shell.trilith("agents", cwd=no_torch).stdout
    done = shell.trilith("evaluate", "objects", "--task", "silhouette", "--scenes", 6, "--workers", 2, "--out", "x.json", cwd=no_torch)
    assert done.returncode == 0, done.stderr
    assert len(json.loads((no_torch / "x.json").read_text())["rewards"]) == 6


def test_what_needs_torch_asks_for_it_in_one_line(no_torch: Path) -> None:
    own_weights(no_torch / "own.safetensors", DQNConfig(net=NetConfig("graph", width=8)), "covering")
    said = shell.refused(shell.trilith("evaluate", "own.safetensors", "--task", "covering", "--scenes", 1, cwd=no_torch))
    assert said.startswith('the agent own.safetensors needs more packages (torch, tensorboard missing): pip install "trilith[learn]"')
    said = shell.refused(shell.trilith("train", "--task", "covering", "--out", "run", cwd=no_torch))
    assert said.startswith("training needs more packages (torch, tensorboard missing)")
    assert not (no_torch / "run").exists()


def test_what_python_imports_without_its_extra_asks_for_it_in_one_line(no_torch: Path) -> None:
    lines = """
import trilith
for what in ("trilith.train", "__import__('trilith.envs.dm')"):
    try:
        eval(what)
    except ModuleNotFoundError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", lines], cwd=no_torch, env=shell.ENVIRONMENT, capture_output=True, text=True, check=True)
    learn, dm = done.stdout.splitlines()
    assert learn.startswith('training needs more packages (torch, tensorboard missing): pip install "trilith[learn]"')
    assert dm == 'trilith.envs.dm needs dm_env: pip install "trilith[dm]"'
