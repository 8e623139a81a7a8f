"""Actors in processes of their own: they answer as any would, are never waited for in vain, and may die."""

import os
import signal
import time
from typing import Any

import numpy as np
import pytest
import torch
from training.tiny import AGENT, returns

from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dqn.policy import make_layout, make_net
from trilith.training.actor import Order, collect
from trilith.training.local import MAX_DEATHS, Processes, flat_weights


def test_an_order_gives_the_same_episodes_in_any_process() -> None:
    net = make_net(AGENT, make_layout(AGENT, "covering_hard", beyond=False))
    order = Order((0, 1), 6, (0.5, 0.5), 0.5, (4.0, 4.0))
    here = collect(net, "covering_hard", order)
    actors = Processes(AGENT, "covering_hard", 1)
    try:
        free = actors.idle()
        actors.send(order, flat_weights(net))
        assert actors.idle() == free - 1
        [there] = wait_for(actors)
        assert returns(there) == returns(here)
        for mine, theirs in zip(here.episodes, there.episodes, strict=True):
            assert mine.records.tobytes() == theirs.records.tobytes()
            np.testing.assert_array_equal(mine.actions, theirs.actions)

        victim = next(iter(actors._actors.values()))[0]
        actors.send(order, flat_weights(net))
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
        [again] = wait_for(actors)  # another actor takes over the order
        assert returns(again) == returns(here)
        assert len(actors.deaths) <= 1  # none if it had answered before it died
    finally:
        actors.close()


def test_an_actor_takes_its_next_orders_while_it_plays_one() -> None:
    """Orders and answers are larger than what a pipe holds, so each side would wait for the other if nobody read meanwhile."""
    torch.manual_seed(0)
    agent = DQNConfig()
    net = make_net(agent, make_layout(agent, "covering_hard", beyond=False))
    assert flat_weights(net).nbytes > 2**18
    actors = Processes(agent, "covering_hard", 1)
    try:
        orders = [Order((0, i), 256, (0.5, 0.5), 0.5, (4.0, 4.0)) for i in range(actors.idle())]
        assert len(orders) > 1
        for order in orders:
            actors.send(order, flat_weights(net))
        assert actors.idle() == 0
        played = [wait_for(actors)[0] for _ in orders]
        assert sum(episode.records.nbytes for episode in played[0].episodes) > 2**18
        assert [each.order.seed for each in played] == [order.seed for order in orders]
    finally:
        actors.close()


def test_an_order_that_kills_its_actors_ends_the_run() -> None:
    actors = Processes(AGENT, "covering_hard", 2)
    weights = flat_weights(make_net(AGENT, make_layout(AGENT, "covering_hard", beyond=False)))

    def kill() -> None:
        pipe, (process, _) = next(each for each in actors._actors.items() if each[1][1])
        process.kill()
        actors._bury(pipe)

    try:
        actors.send(Order((0, 1), 1, (1.0, 0.0), 0.0, (4.0, 4.0)), weights)
        for _ in range(MAX_DEATHS):
            kill()
            assert actors.receive(timeout=0.0) == []  # which gives the order to another
        with pytest.raises(ValueError, match="5 actor processes died of the same episodes"):
            kill()
    finally:
        actors.close()


def wait_for(actors: Processes) -> list[Any]:
    until = time.monotonic() + 180
    while time.monotonic() < until:
        if played := actors.receive(timeout=1):
            return played
    raise TimeoutError
