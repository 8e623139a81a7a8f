"""Episodes as arrays. That recorded episodes come back byte for byte is in tests/data/test_recording.py."""

from dataclasses import replace

import numpy as np
import pytest

from trilith.agents.random_agents import LegalAgent
from trilith.evaluation.play import trajectories
from trilith.world.episode import start
from trilith.world.trajectory import Trajectory, to_arrays


def played(count: int) -> list[Trajectory]:
    rngs = [np.random.default_rng(i) for i in range(count)]
    return trajectories(LegalAgent(), [start("covering_hard", 0, rng) for rng in rngs], rngs)


def test_whether_actions_explored_is_known_of_all_episodes_or_of_none():
    first, second = played(2)
    known = replace(first, explored=(True,) * len(first.placements))
    with pytest.raises(ValueError, match="`explored` must be known for all episodes or for none"):
        to_arrays([known, replace(second, explored=())])


def test_an_episode_that_goes_on_is_refused():
    [episode] = played(1)
    early = replace(episode, states=episode.states[:-1], placements=episode.placements[:-1], rewards=episode.rewards[:-1])
    with pytest.raises(ValueError, match="only episodes that have ended"):
        to_arrays([early])
