"""Actors in processes of their own: they answer as any would, are never waited for in vain, and may die."""

import os
import signal
import threading
import time
from typing import Any

import pytest
import torch
from training.tiny import AGENT, policy, request, returns

from trilith.agents.dqn.config import DQNConfig
from trilith.training.actor import collect
from trilith.training.actor_pool import PolicySpec, actor_processes
from trilith.utils.distributed.pool import MAX_DEATHS, QUEUE

pytestmark = pytest.mark.slow

SPEC = PolicySpec("dqn", AGENT, "covering_hard")


def test_a_request_gives_the_same_episodes_in_any_process() -> None:
    here_policy = policy()
    asked = request(6, 0.5)
    here = collect(here_policy, "covering_hard", asked)
    actors = actor_processes(SPEC, 1)
    try:
        free = all_idle(actors)
        actors.send(asked, here_policy.weights())
        assert actors.idle() == free - 1
        [there] = wait_for(actors)
        assert returns(there) == returns(here)
        for mine, theirs in zip(here.episodes, there.episodes, strict=True):
            assert mine.steps.tobytes() == theirs.steps.tobytes()

        victim = actors.workers[0].process
        actors.send(asked, here_policy.weights())
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
        [again] = wait_for(actors)  # another actor takes over the request
        assert returns(again) == returns(here)
        assert len(actors.notes) <= 1  # none if it had answered before it died
    finally:
        actors.close()


def test_an_actor_takes_its_next_requests_while_it_plays_one() -> None:
    """Requests and results are larger than what a pipe holds, so each side would wait for the other if nobody read meanwhile."""
    torch.manual_seed(0)
    agent = DQNConfig()
    weights = policy(agent).weights()
    assert sum(array.nbytes for array in weights.values()) > 2**18
    actors = actor_processes(PolicySpec("dqn", agent, "covering_hard"), 1)
    try:
        asked = [request(256, 0.5, number=i) for i in range(all_idle(actors))]
        assert len(asked) > 1
        for each in asked:
            actors.send(each, weights)
        assert actors.idle() == 0
        results = [wait_for(actors)[0] for _ in asked]
        assert sum(episode.steps.nbytes for episode in results[0].episodes) > 2**18
        assert [each.request for each in results] == asked
    finally:
        actors.close()


@pytest.mark.parametrize("ready", [False, True])
def test_sending_never_waits_for_an_actor_that_is_starting_or_stopped(ready: bool) -> None:
    agent = DQNConfig()
    weights = policy(agent).weights()
    actors = actor_processes(PolicySpec("dqn", agent, "covering_hard"), 1)
    try:
        process = actors.workers[0].process
        assert process.pid is not None
        if ready:
            all_idle(actors)
        os.kill(process.pid, signal.SIGSTOP)  # it reads nothing
        received: list[Any] = []

        def send_all() -> None:
            for number in range(4):
                actors.send(request(1, 0.5, number=number), weights)
            received.append(actors.receive(timeout=0.0))

        sending = threading.Thread(target=send_all, daemon=True)
        sending.start()
        sending.join(120)  # whoever waits for a stopped process waits forever
        assert received == [[]]
    finally:
        actors.close()
    assert not process.is_alive()


def test_an_actor_that_does_not_answer_is_replaced_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    actors = actor_processes(SPEC, 1)
    try:
        weights = policy().weights()
        actors.send(request(1, 0.5), weights)
        wait_for(actors)
        stopped = actors.workers[0].process
        assert stopped.pid is not None
        os.kill(stopped.pid, signal.SIGSTOP)
        actors.send(request(2, 0.5), weights)
        monkeypatch.setattr(actors, "stall_seconds", 0.0)
        actors.receive(timeout=0.01)
        monkeypatch.undo()
        assert "did not answer" in actors.notes[0]
        assert not stopped.is_alive()
        assert len(wait_for(actors)[0].episodes) == 2
    finally:
        actors.close()


def test_a_request_that_kills_its_actors_ends_the_run() -> None:
    actors = actor_processes(SPEC, 2)
    weights = policy().weights()

    def kill_and_receive() -> None:
        until = time.monotonic() + 180
        while time.monotonic() < until:
            for actor in actors.workers:
                if actor.jobs:
                    actor.process.kill()
            actors.receive(timeout=0.1)

    try:
        actors.send(request(10_000, 0.0), weights)
        with pytest.raises(ValueError, match=r"^5 actors died of the same job: is there enough memory\?$"):
            kill_and_receive()
        assert len(actors.notes) == MAX_DEATHS + 1
    finally:
        actors.close()


def all_idle(actors: Any) -> int:
    """Waits until all actors are ready; how many requests they could have."""
    while actors.idle() < QUEUE * len(actors.workers):
        assert actors.receive(timeout=1) == []
    return actors.idle()


def wait_for(actors: Any) -> list[Any]:
    until = time.monotonic() + 180
    while time.monotonic() < until:
        if results := actors.receive(timeout=1):
            return results
    raise TimeoutError
