"""What an actor plays: by chance, by value, by search, by demonstration, and to evaluate."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from training.tiny import AGENT, returns

from trilith.agents.dqn.policy import make_layout, make_net
from trilith.search.config import SearchConfig
from trilith.training.actor import Order, _by_chance, _play, collect, play_greedily, valid_states
from trilith.training.config import recipe_config
from trilith.world.episode import State, start, step


@pytest.mark.parametrize("actions", ["relative", "relative_xy", "absolute"])
def test_the_first_steps_are_random_placements_that_overlap_nothing(actions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ends, taken = [], set()

    def spy(state: State, placement: Any, forfeit: bool) -> Any:
        after = step(state, placement, forfeit)
        ends.append(after.state.ended)
        return after

    monkeypatch.setattr("trilith.training.actor.step", spy)
    config = replace(recipe_config("paper").agent, actions=actions, offsets=7)
    net = make_net(config, make_layout(config, "covering_hard"))
    for episode in collect(net, "covering_hard", Order((0, 1), 12, (0.0, 1.0), 0.0, (7.0, 7.0), by_chance=True)).episodes:
        taken |= {tuple(action) for action in episode.actions.tolist()}
    assert len(ends) > 20
    assert not {"bad_choice", "invalid_edge", "spawn_collision"} & set(ends), set(ends)
    assert {action[3] for action in taken} == {0, 1}
    assert len(taken) > 0.9 * len(ends)
    ends.clear()
    collect(net, "covering_hard", Order((0, 1), 12, (0.0, 1.0), 3.0, (7.0, 7.0), by_chance=True))
    assert {"invalid_edge", "bad_choice", "spawn_collision"} & set(ends)  # exploring, with the mask none


def test_exploring_grows_as_an_episode_nears_its_end() -> None:
    """At step n an action is random with probability ε / max(L - n, 1)."""
    net = make_net(AGENT, make_layout(AGENT, "covering_hard", beyond=False))
    by_chance, explored = _by_chance(net), list[Any]()

    def spy(which: Any, states: Any, records: Any, random: Any, rng: Any) -> Any:
        explored.append(random)
        return by_chance(which, states, records, np.zeros_like(random), rng)

    rng = np.random.default_rng(0)
    _play(net.layout, spy, [start("covering_hard", 1, rng) for _ in range(300)], 0.6, [3.0] * 300, rng, False)
    assert [random.mean() for random in explored[:4]] == pytest.approx([0.2, 0.3, 0.6, 0.6], abs=0.08)


def test_under_forfeit_an_obstacle_touched_takes_back_all_that_an_episode_earned() -> None:
    net = make_net(AGENT, make_layout(AGENT, "covering_hard", beyond=False))
    kept, forfeited = (
        collect(net, "covering_hard", Order((0, 1), 40, (0.0, 1.0), 0.0, (7.0, 7.0), by_chance=True, forfeit=forfeit)).episodes
        for forfeit in (False, True)
    )
    changed = 0
    for one, two in zip(kept, forfeited, strict=True):
        assert one.actions.tolist() == two.actions.tolist()
        if one.rewards.tolist() != two.rewards.tolist():
            changed += 1
            assert two.rewards.sum() == pytest.approx(0.0, abs=1e-6)
            assert one.rewards[:-1].tolist() == two.rewards[:-1].tolist()
    assert changed > 3


def test_an_actor_that_searches_tells_what_it_found() -> None:
    net = make_net(AGENT, make_layout(AGENT, "silhouette", beyond=False))
    order = Order((0, 1), 4, (0.0, 1.0, *[0.0] * 6), 0.5, (4.0,) * 8, SearchConfig(7))
    played = collect(net, "silhouette", order)
    assert [e.rewards.tolist() for e in collect(net, "silhouette", order).episodes] == [e.rewards.tolist() for e in played.episodes]
    for episode in played.episodes:
        assert episode.tried.shape[0] == len(episode.actions)
        assert 1 <= episode.tried.shape[1] <= 7
        given = episode.tried[:, :, 0] >= 0
        assert given[:, 0].all()
        assert np.isfinite(episode.found[given]).all()
    batch = net.layout.unpack(np.concatenate([e.records for e in played.episodes]))
    first = torch.from_numpy(np.concatenate([e.tried[:, 0] for e in played.episodes]).astype(np.int64))
    allowed = net.mask(batch).flatten(1).gather(1, net.flat(batch, first)[:, None])
    assert allowed.all(), "what was tried is what the mask allows"


def test_a_demonstration_earns_what_the_planner_earns() -> None:
    net = make_net(AGENT, make_layout(AGENT, "silhouette", beyond=False))
    order = Order((0, 1), 3, (0.0, 0.0, 1.0, *[0.0] * 5), 0.5, (4.0,) * 8, demonstrate=True)
    played = collect(net, "silhouette", order)
    assert returns(played) == pytest.approx([3.0] * 3, abs=0.51)  # three targets, glue for one at most
    assert all(len(episode.actions) <= 3 for episode in played.episodes)


def test_an_evaluation_is_of_the_hardest_scenes_and_of_all() -> None:
    net = make_net(AGENT, make_layout(AGENT, "covering_hard", beyond=False))
    played = collect(net, "covering_hard", Order((0, 0), 6, (), 0.0, (), valid=0))
    assert played.episodes == []
    assert set(played.valid) == {"hardest", "all"}
    for level, mean in played.valid.items():
        assert mean == pytest.approx(np.mean(play_greedily(net, valid_states("covering_hard", level, 6))))
    assert {state.level for state in valid_states("covering_hard", "hardest", 6)} == {1}
    assert {state.level for state in valid_states("covering_hard", "all", 6)} == {0, 1}
