"""What the tests of training share: an agent that learns in no time, if little."""

from trilith.agents.dqn.config import DQNConfig
from trilith.nets.config import NetConfig
from trilith.training.actor import Played

AGENT = DQNConfig(
    net=NetConfig(width=16, layers=1, heads=2, decoder=16),
    batch=8,
    ratio=0.2,
    min_replay=20,
    replay_mb=0.2,
    curriculum_steps=10,
    first_demonstrations=0,
    demonstrations=0.0,
)


def returns(played: Played) -> list[float]:
    return [float(episode.rewards.sum()) for episode in played.episodes]
