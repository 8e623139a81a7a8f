"""What the tests of training share: an agent that learns in no time, if little."""

from dataclasses import replace
from typing import Any

from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dqn.policy import DQNPolicy, Exploration
from trilith.agents.model.config import DynamicsConfig, OnlineConfig
from trilith.nets.config import NetConfig
from trilith.search.config import SearchConfig
from trilith.training.actor import PlayRequest, Result

AGENT = DQNConfig(
    net=NetConfig(width=16, layers=1, heads=2, decoder=16),
    batch=8,
    ratio=0.2,
    min_replay=20,
    replay_mb=0.2,
    first_demonstrations=0,
    demonstrations=0.0,
)
ONLINE = replace(
    AGENT,
    search=SearchConfig(3, world="online"),
    model=OnlineConfig(DynamicsConfig(width=8, layers=1, heads=1, pair=4), batch=4, unroll=2, first_steps=9, every=2, replay_mb=0.1),
)
"""Its actors search in a model that it learns too."""


def policy(agent: DQNConfig = AGENT, task: str = "covering_hard") -> DQNPolicy:
    return DQNPolicy(agent, task, beyond=False)


def request(episodes: int, epsilon: float, number: int = 1, levels: tuple[float, ...] = (0.5, 0.5), **options: Any) -> PlayRequest:
    """A request to play, with episodes of four steps expected at every level."""
    forfeit = options.pop("forfeit", False)
    return PlayRequest((0, number), episodes, levels, forfeit, Exploration(epsilon, (4.0,) * len(levels), **options))


def returns(result: Result) -> list[float]:
    return [float(episode.steps["reward"].sum()) for episode in result.episodes]
