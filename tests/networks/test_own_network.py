"""A network of one's own is found by its name, learns, is saved, and builds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import own_network
import pytest

from trilith.agents.dqn.policy import make_net, make_schema
from trilith.agents.dqn.recipes import OBJECTS
from trilith.agents.registry import load
from trilith.evaluation.play import play
from trilith.evaluation.scene_sets import start_in_set
from trilith.networks.config import NetConfig
from trilith.training.config import TrainConfig
from trilith.training.run import train

AGENT = replace(OBJECTS, net=NetConfig("own_network:DeepSets", width=16), batch=8, learning_starts=20, replay_mb=0.2)


def test_it_trains_and_what_it_learned_builds(tmp_path: Path) -> None:
    train(TrainConfig(task="covering_hard", out=tmp_path, actors=0, steps=3, episodes=4, evaluate_scenes=2, agent=AGENT), screen=False)
    first = [start_in_set("covering_hard", "hardest", "test", k) for k in range(2)]
    played = play(load(str(tmp_path)), first, [np.random.default_rng(k) for k in range(2)])
    assert [end.steps > 0 for _, end in played] == [True, True]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nonesuch", "there is no network 'nonesuch': choose objects, .* or name a class as my_module:MyNetwork"),
        ("own_network:Nonesuch", "there is no network 'own_network:Nonesuch'"),
        ("pathlib:PurePath", "pathlib:PurePath is not a network of Q-values"),
    ],
)
def test_a_name_of_something_else_is_one_line(name: str, message: str) -> None:
    config = replace(OBJECTS, net=NetConfig(name))
    with pytest.raises(ValueError, match=message) as error:
        make_net(config, make_schema(config, "covering_hard"))
    assert "\n" not in str(error.value)


def test_it_is_short() -> None:
    assert own_network.__file__ is not None
    assert len(Path(own_network.__file__).read_text(encoding="utf-8").splitlines()) < 60
