"""Agents that come with the package earn what their cards say."""

import numpy as np
import pytest

from trilith.agents.registry import ZOO, load, shipped
from trilith.agents.weights import read_card
from trilith.evaluation.play import play
from trilith.evaluation.scene_sets import start_in_set

SCENES = 50
SHIPPED = [(folder.name, task) for folder in sorted(ZOO.glob("*")) for task in shipped(folder.name)]


@pytest.mark.parametrize(("name", "task"), SHIPPED)
def test_a_shipped_agent_earns_what_its_card_says(name: str, task: str) -> None:
    card = read_card(shipped(name)[task])
    [tested] = [each for each in card["test"] if each["level"] == "hardest" and not each["budget"]]
    starts = [start_in_set(task, "hardest", "test", k) for k in range(SCENES)]
    ends = play(load(name), starts, [np.random.default_rng(k) for k in range(SCENES)])
    spread = tested["interval"] / 1.96 * tested["scenes"] ** 0.5  # standard deviation of an episode's reward
    least = tested["reward"] - 3 * spread / SCENES**0.5
    assert np.mean([end.total for _, end in ends]) > least, "clearly less than on its card"
