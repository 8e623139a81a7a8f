"""What the tests of training share: an agent that learns in no time, if little."""

import sys
from dataclasses import replace
from typing import Any

import pytest

from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dqn.policy import DQNPolicy, Exploration, make_net
from trilith.agents.dynamics.config import OnlineConfig
from trilith.networks.config import DynamicsConfig, NetConfig
from trilith.search.config import SearchConfig
from trilith.training.actor import PlayRequest, Result
from trilith.world.tasks import TASKS

NET = NetConfig(width=8, heads=2, layers=1, pair=4, decoder=8, message=4, token=8)
AGENT = DQNConfig(
    net=NET, batch=8, updates_per_step=0.2, learning_starts=20, replay_mb=0.2, counterfactual_actions=2, corrections_per_update=0.0
)
CORRECTED = replace(AGENT, corrections_per_update=0.5)
"""Corrected by the planner."""
ONLINE = replace(
    AGENT,
    search=SearchConfig(3, world="online"),
    model=OnlineConfig(DynamicsConfig(width=8, layers=1, heads=1, pair=4), batch=4, unroll=2, first_steps=9, every=2, replay_mb=0.1),
)
"""Its actors search in a model that it learns too."""


def policy(agent: DQNConfig = AGENT, task: str = "covering_hard") -> DQNPolicy:
    return DQNPolicy(agent, task, beyond=False)


def fresh(agent: DQNConfig = AGENT, task: str = "covering_hard") -> DQNPolicy:
    """A policy with weights as learning begins with them, always the same; those of `policy` are all 0."""
    import torch

    acting = policy(agent, task)
    torch.manual_seed(0)
    acting.net.load(make_net(agent, acting.schema).weights())
    return acting


def request(episodes: int, epsilon: float, number: int = 1, levels: tuple[float, ...] = (0.5, 0.5), **options: Any) -> PlayRequest:
    """A request to play, with episodes of four steps expected at every level."""
    zero_on_hit = options.pop("zero_on_hit", False)
    return PlayRequest((0, number), episodes, levels, zero_on_hit, Exploration(epsilon, (4.0,) * len(levels), **options))


def returns(result: Result) -> list[float]:
    return [float(episode.steps["reward"].sum()) for episode in result.episodes]


def never_told_the_most(patch: pytest.MonkeyPatch) -> None:
    """From now on nobody may ask a task for the most there is to earn, but for its own rule of when an episode is complete."""
    for kind, best in [(type(rules), type(rules).best) for rules in TASKS.values()]:

        def refuse(self: Any, scene: Any, best: Any = best) -> float:
            assert sys._getframe(1).f_code.co_name == "complete", "the most there is to earn was asked for"
            return float(best(self, scene))

        patch.setattr(kind, "best", refuse)
