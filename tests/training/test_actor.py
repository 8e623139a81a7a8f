"""What an actor plays: by chance, by value, by search, by demonstration, and to validate."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from training.tiny import AGENT, ONLINE, policy, request, returns

from trilith.agents.base import Takeover
from trilith.agents.dqn.policy import DQNPolicy, Exploration, make_net
from trilith.evaluation.play import play
from trilith.search.config import SearchConfig
from trilith.training.actor import DemonstrateRequest, ValidateRequest, collect, valid_states
from trilith.training.config import recipe_config
from trilith.world.episode import State, start, step
from trilith.world.scene import Role

HARDEST = (0.0, 1.0)


@pytest.mark.parametrize("actions", ["relative", "relative_xy", "absolute"])
def test_the_first_steps_are_random_placements_that_overlap_nothing(actions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ends, taken = [], set()

    def spy(state: State, placement: Any, forfeit: bool) -> Any:
        after = step(state, placement, forfeit)
        ends.append(after.state.ended)
        return after

    monkeypatch.setattr("trilith.training.actor.step", spy)
    acting = policy(replace(recipe_config("paper").agent, actions=actions, offsets=7))
    for episode in collect(acting, "covering_hard", request(12, 0.0, levels=HARDEST, warm_up=True)).episodes:
        taken |= {tuple(action) for action in episode.steps["action"].tolist()}
    assert len(ends) > 20
    assert not {"bad_choice", "invalid_edge", "spawn_collision"} & set(ends), set(ends)
    assert {action[3] for action in taken} == {0, 1}
    assert len(taken) > 0.9 * len(ends)
    ends.clear()
    collect(acting, "covering_hard", request(12, 3.0, levels=HARDEST, warm_up=True))
    assert {"invalid_edge", "bad_choice", "spawn_collision"} & set(ends)  # exploring, with the mask none


def test_exploring_grows_as_an_episode_nears_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """At step n an action is random with probability ε / max(L - n, 1)."""
    rng = np.random.default_rng(0)
    states = [start("covering_hard", 1, rng) for _ in range(300)]
    explored: list[float] = []
    monkeypatch.setattr(
        "trilith.agents.dqn.policy._choose", lambda net, records, values, random, rngs: explored.append(random.mean()) or [None] * 300
    )
    for n in range(4):
        rngs = [np.random.default_rng((n, k)) for k in range(300)]
        policy().act([replace(state, steps=n) for state in states], rngs, Exploration(0.6, (3.0, 3.0)))
    assert explored == pytest.approx([0.2, 0.3, 0.6, 0.6], abs=0.08)


def test_what_happens_in_an_episode_does_not_depend_on_those_beside_it() -> None:
    acting, rng = policy(), np.random.default_rng(0)
    states = [start("covering_hard", 1, rng) for _ in range(6)]

    def decided(which: list[int]) -> list[Any]:
        rngs = [np.random.default_rng(k) for k in which]
        return [each.placement for each in acting.act([states[k] for k in which], rngs, Exploration(2.0, (4.0, 4.0)))]

    assert decided([0, 1, 2, 3, 4, 5])[3:] == decided([3, 4, 5])


def test_under_forfeit_an_obstacle_touched_takes_back_all_that_an_episode_earned() -> None:
    kept, forfeited = (
        collect(policy(), "covering_hard", request(40, 0.0, levels=HARDEST, warm_up=True, forfeit=forfeit)).episodes
        for forfeit in (False, True)
    )
    changed = 0
    for one, two in zip(kept, forfeited, strict=True):
        assert one.steps["action"].tolist() == two.steps["action"].tolist()
        if one.steps["reward"].tolist() != two.steps["reward"].tolist():
            changed += 1
            assert two.steps["reward"].sum() == pytest.approx(0.0, abs=1e-6)
            assert one.steps["reward"][:-1].tolist() == two.steps["reward"][:-1].tolist()
    assert changed > 3


def test_an_actor_that_searches_tells_what_it_found() -> None:
    acting = DQNPolicy(replace(AGENT, search=SearchConfig(7), amortise=0.1), "silhouette", beyond=False)
    asked = request(4, 0.5, levels=(0.0, 1.0, *[0.0] * 6))
    result = collect(acting, "silhouette", asked)
    assert returns(collect(acting, "silhouette", asked)) == returns(result)
    steps = np.concatenate([episode.steps for episode in result.episodes])
    given = steps["tried"][:, :, 0] >= 0
    assert steps["tried"].shape[1:] == (7, 4)
    assert given[:, 0].all()
    assert np.isfinite(steps["found"][given]).all()
    batch = acting.layout.unpack(steps["state"])
    first = torch.from_numpy(steps["tried"][:, 0].astype(np.int64))
    net = make_net(acting.config, acting.layout)
    allowed = net.mask(batch).flatten(1).gather(1, net.flat(batch, first)[:, None])
    assert allowed.all(), "what was tried is what the mask allows"


def test_actors_simulate_siblings_and_keep_those_that_end_the_episode() -> None:
    acting = policy(replace(AGENT, siblings=4))
    result = collect(acting, "covering_hard", request(12, 0.0, levels=HARDEST))
    assert returns(collect(acting, "covering_hard", request(12, 0.0, levels=HARDEST))) == returns(result)
    steps = np.concatenate([episode.steps for episode in result.episodes])
    kept = steps["tried"][..., 0] >= 0
    assert 0 < kept.sum() < kept.size  # some end it, some do not
    assert (steps["found"][kept] == 0).mean() > 0.5  # most touch an obstacle
    searching = DQNPolicy(replace(AGENT, siblings=4, search=SearchConfig(5)), "covering_hard", beyond=False)
    for episode in collect(searching, "covering_hard", request(4, 0.0, levels=HARDEST)).episodes:
        assert (episode.steps["tried"] == -1).all()  # what a search finds is no end


def test_an_episode_comes_with_its_states_if_the_learner_wants_them() -> None:
    for demonstrated, asked in ((False, request(4, 0.5, warm_up=True)), (True, DemonstrateRequest((0, 1), 1, (1.0, 0.0), False))):
        plain, whole = (collect(policy(agent), "covering_hard", asked).episodes for agent in (AGENT, ONLINE))
        assert all(episode.trajectory is None for episode in plain)
        for one, two in zip(plain, whole, strict=True):
            assert len(one.steps) == len(two.steps)
            passed = two.trajectory
            assert passed is not None
            for k, placement in enumerate(passed.placements):
                assert step(passed.states[k], placement)[:2] == (passed.states[k + 1], passed.rewards[k])
            assert two.steps["reward"].tolist() == pytest.approx(list(passed.rewards))
            assert two.demonstrated == demonstrated


def test_a_demonstration_earns_what_the_planner_earns() -> None:
    acting = policy(task="silhouette")
    result = collect(acting, "silhouette", DemonstrateRequest((0, 1), 3, (0.0, 0.0, 1.0, *[0.0] * 5), False))
    assert returns(result) == pytest.approx([3.0] * 3, abs=0.51)  # three targets, glue for one at most
    assert all(len(episode.steps) <= 3 and episode.demonstrated for episode in result.episodes)


def test_the_planner_takes_over_where_the_agent_failed() -> None:
    acting, levels = policy(replace(AGENT, stop=False), task="silhouette"), (0.0, 0.0, 0.0, 1.0, *[0.0] * 4)

    def blocks(*takeover: Any) -> list[int]:
        """How many there are already where each demonstration begins."""
        request = DemonstrateRequest((0, 1), 8, levels, False, Takeover(*takeover))
        result = collect(acting, "silhouette", request)
        assert returns(collect(acting, "silhouette", request)) == returns(result)
        return [int((episode.steps["state"]["role"][0] == Role.BLOCK).sum()) for episode in result.episodes]

    assert blocks() == [0] * 8
    assert max(blocks(1.0)) > 0
    assert 0 in blocks(1.0)  # an agent that has learnt nothing fails at its first step, too
    assert len(blocks(1.0, 4, 0.0)) == 8  # always the planner
    assert 0 < len(blocks(1.0, 100, 1.0)) < 8  # searches that earn no more are not shown


def test_a_validation_is_of_the_hardest_scenes_and_of_all_and_plays_as_an_evaluation_does() -> None:
    acting = policy()
    result = collect(acting, "covering_hard", ValidateRequest(0, 6, False))
    assert result.episodes == []
    assert set(result.rewards) == {"hardest", "all"}
    for level, mean in result.rewards.items():
        states = valid_states("covering_hard", level, 6)
        ends = [end.total for _, end in play(acting.agent, states, [np.random.default_rng(0)] * 6)]
        assert mean == pytest.approx(np.mean(ends))
    assert {state.level for state in valid_states("covering_hard", "hardest", 6)} == {1}
    assert {state.level for state in valid_states("covering_hard", "all", 6)} == {0, 1}
