"""Rollouts that are kept, on toys whose returns are known, and in the world with a prior that is a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_toys import Counting, Risk, Table, Toy, Trap, Word, starts

from trilith.agents.random_agents import LegalAgent
from trilith.evaluation.play import play
from trilith.search.agent import SearchAgent
from trilith.search.config import SearchConfig
from trilith.search.rollout import MAX_ACTIONS, Rollout, RolloutNode
from trilith.search.simulator import Simulator
from trilith.search.tree import Prior, depth, principal_variation, size
from trilith.world.episode import start

CONFIG, ROLLOUT = SearchConfig(10), Rollout()


class Hidden(Risk):
    """Action 0 earns 1 at once and no more, of 2 hardly anything is expected. What is behind it is 10, where that is not over at once."""

    def __init__(self, risk: bool) -> None:
        super().__init__(actions=3)
        self.risk = risk

    def priors(self, states: Sequence[Word]) -> list[Prior]:
        return [Prior(np.array([1.0, 0.5, 0.1]) if not word else np.full(3, 0.1), np.arange(3), np.arange(10, 13)) for word in states]

    def step(self, state: Word, action: int) -> tuple[Word, float, float]:
        after, reward, ended = super().step(state, action)
        return after, reward, ended if self.risk or len(after) == 2 else 0.0


def rolled(world: Toy, budget: int) -> RolloutNode[Word]:
    [root] = ROLLOUT.make_roots(world, [()])
    ROLLOUT.search(world, world, [root], (), budget)
    return root


def played(world: Toy, budget: int) -> tuple[float, int]:
    """What an episode earns whose tree is kept from decision to decision, and the most simulations that a decision took."""
    [root], total, most = ROLLOUT.make_roots(world, [()]), 0.0, 0
    while True:
        before = sum(world.made.values())
        ROLLOUT.search(world, world, [root], (), budget)
        most = max(most, sum(world.made.values()) - before)
        action = ROLLOUT.decide(root, np.random.default_rng(0))
        assert action is not None
        reward = root.rewards[action] if action in root.rewards else world.step(root.state, action + 10)[1]
        total += reward
        child = root.children.get(action)
        if child is None:
            return total, most
        root = child


def greedy(world: Toy, word: Word = ()) -> float:
    after, reward, ended = world.step(word, int(world.priors([word])[0].values.argmax()) + 10)
    return reward if ended else reward + greedy(world, after)


def test_the_first_line_is_what_the_agent_does_without_search_and_its_return_is_exact() -> None:
    for seed in range(20):
        world = Toy(seed, length=4)
        root = rolled(world, 4)
        assert depth(root) == size(root) == 4
        assert root.plan is not None
        assert root.plan.steps == 4
        assert root.plan.earned == pytest.approx(greedy(Toy(seed, length=4)))
        rewards = []
        for node, action in principal_variation(root):
            rewards.append(node.rewards[action])
        assert root.plan.earned == pytest.approx(sum(rewards))
        assert root.plan.discounted == pytest.approx(sum(reward * 0.99**k for k, reward in enumerate(rewards)))


@given(seed=st.integers(0, 10**6), budget=st.integers(4, 40))
def test_nothing_worse_is_done_than_without_search(seed: int, budget: int) -> None:
    """The budget reaches to the end at the first decision, and what is found later only adds to that."""
    total, most = played(Toy(seed, length=4), budget)
    assert total >= greedy(Toy(seed, length=4)) - 1e-9
    assert most <= budget


def test_searching_pays_and_more_of_it_pays_more() -> None:
    earned = [np.mean([played(Toy(seed, length=4), budget)[0] for seed in range(60)]) for budget in (4, 12, 100)]
    assert earned[0] + 0.2 < earned[1] < earned[2]


def test_a_plan_is_left_only_for_a_better_one() -> None:
    """The 10 are found once all that promises more has been tried."""
    world = Hidden(risk=False)
    chosen = [ROLLOUT.decide(rolled(world, budget), np.random.default_rng(0)) for budget in range(1, 13)]
    assert chosen[0] == 0
    assert chosen[-1] == 2
    assert chosen == sorted(chosen), "once it has the better plan it keeps to it"


def test_a_line_is_not_gone_on_with_where_it_promises_far_less_than_the_plan() -> None:
    class Poor(Trap):
        """The first line earns 3. Action 1 looks as good, and turns out to be worth nothing as soon as it is made."""

        def priors(self, states: Sequence[Word]) -> list[Prior]:
            values = [np.array([3.0, 2.9, -9.0]) if word in ((), (0,)) else np.zeros(3) for word in states]
            return [Prior(each, np.arange(3), np.arange(10, 13)) for each in values]

        def step(self, state: Word, action: int) -> tuple[Word, float, bool]:
            after = (*state, action - 10)
            self.made[state, action] += 1
            return after, 3.0 * (after == (0, 0)), len(after) == 2

    world = Poor(actions=3)
    root = rolled(world, 50)
    assert root.plan is not None
    assert root.plan.earned == 3
    assert set(world.made) == {((), 10), ((0,), 10), ((0,), 11), ((), 11)}, "nothing more promises anything, so no more is simulated"


def test_a_plan_that_earns_far_less_is_left_for_a_line_that_is_not_at_its_end() -> None:
    class Long(Toy):
        """Action 0 is the end, of 1 as much is expected: it goes on for a hundred steps."""

        def priors(self, states: Sequence[Word]) -> list[Prior]:
            return [Prior(np.array([4.0, 3.9]), np.arange(2), np.arange(10, 12)) for _ in states]

        def step(self, state: Word, action: int) -> tuple[Word, float, bool]:
            after = (*state, action - 10)
            return after, self.reward if after == (0,) else 0.0, after == (0,) or len(after) == 100

    world = Long()
    for world.reward, chosen in ((0.0, 1), (1.8, 1), (3.5, 0)):
        root = rolled(world, 10)
        assert root.plan is not None
        assert root.plan.action == 0
        assert ROLLOUT.decide(root, np.random.default_rng(0)) == chosen
    [root], world.reward = ROLLOUT.make_roots(world, [()]), 1.8
    root.max_return = 3.0
    ROLLOUT.search(world, world, [root], (), 10)
    assert ROLLOUT.decide(root, np.random.default_rng(0)) == 0, "3.9 were promised, but there are only 3"


def test_nothing_is_tried_beside_a_plan_that_earns_all_there_is() -> None:
    for seed in range(20):
        most = rolled(Toy(seed), 10**4).plan
        assert most is not None
        world = Toy(seed)
        [root] = ROLLOUT.make_roots(world, [()])
        root.max_return = most.earned
        ROLLOUT.search(world, world, [root], (), 10**4)
        assert root.plan is not None
        assert root.plan.earned == pytest.approx(most.earned)
        made = sum(world.made.values())
        assert made < 6 + 36 + 216, "not all that there is"
        ROLLOUT.search(world, world, [root], (), 10**4)
        assert sum(world.made.values()) == made


def test_what_is_likely_over_ends_a_line() -> None:
    world = Hidden(risk=True)
    root = rolled(world, 60)
    assert root.plans[2].steps == 1, "three chances in four that nothing comes after it"
    assert root.plan == root.plans[0]


@given(seed=st.integers(0, 10**6), budget=st.integers(1, 30))
def test_side_by_side_equals_one_by_one_and_nothing_is_simulated_twice(seed: int, budget: int) -> None:
    states: list[Word] = [(), (1,), (2, 3), ()]
    together = ROLLOUT.make_roots(Toy(seed), states)
    ROLLOUT.search(Toy(seed), Toy(seed), together, (), budget)
    for state, tree in zip(states, together, strict=True):
        world = Toy(seed)
        [alone] = ROLLOUT.make_roots(world, [state])
        ROLLOUT.search(world, world, [alone], (), budget)
        assert alone.values.tolist() == tree.values.tolist()
        assert alone.plans == tree.plans
        assert max(world.made.values()) == 1


def test_nodes_are_small() -> None:
    [state] = starts(1)
    agent = SearchAgent(Table(), CONFIG)
    [root] = agent.search([state], [np.random.default_rng(0)])
    [prior] = Table().priors([state])
    assert len(prior.values) > 3 * MAX_ACTIONS
    assert sorted(root.ids.tolist()) == sorted(prior.ids[np.argsort(-prior.values, kind="stable")[:MAX_ACTIONS]].tolist())


def test_of_equal_values_any_may_be_tried() -> None:
    [state] = starts(1)
    [prior] = LegalAgent().priors([state])
    [root] = ROLLOUT.make_roots(LegalAgent(), [state])
    places = np.searchsorted(prior.ids, root.ids) / len(prior.ids)
    assert (np.histogram(places, 4, (0, 1))[0] > 4).all(), "from all over"


def test_an_episode_earns_what_the_last_plan_said() -> None:
    """Played in the world: what is simulated is what then happens, and the tree is kept from decision to decision."""
    for k, first in enumerate(starts(4, "silhouette")):
        world, rng, now = Counting(Simulator()), np.random.default_rng(k), first
        agent, promised = SearchAgent(Table(), SearchConfig(40), world), -np.inf
        while now.ended is None:
            [root] = agent.search([now], [rng])
            assert root.plan is not None
            assert now.total + root.plan.earned >= promised - 1e-9, "a plan is left only for a better one"
            action = agent.algorithm.decide(root, rng)
            assert action is not None
            promised = now.total + root.plan.earned if action == root.plan.action else -np.inf
            agent.keep(root, action, rng)
            made = world.count
            now = Simulator().steps([now], [agent.agent.decode(now, int(root.ids[action]))])[0][0]
            assert world.count == made
        assert now.total == pytest.approx(promised)


def test_once_a_plan_earns_all_there_is_nothing_more_is_simulated() -> None:
    """Any way to reach the three targets of Connecting's first level earns 3, as glue is free there."""
    carried_out = 0
    for k in range(6):
        world, rng, now = Counting(Simulator()), np.random.default_rng(k), start("connecting", 0, np.random.default_rng(k))
        agent, sure = SearchAgent(LegalAgent(), SearchConfig(60), world), False
        while now.ended is None:
            made = world.count
            [root] = agent.search([now], [rng])
            assert (world.count == made) == sure
            carried_out += sure
            assert root.plan is not None
            sure = now.total + root.plan.earned == 3
            action = agent.algorithm.decide(root, rng)
            agent.keep(root, action, rng)
            assert action is not None
            now = Simulator().steps([now], [agent.agent.decode(now, int(root.ids[action]))])[0][0]
        assert not sure or now.total == 3
    assert carried_out > 4


@pytest.mark.parametrize("agent", [LegalAgent, Table])
def test_episodes_side_by_side_equal_episodes_one_by_one(agent: type[LegalAgent]) -> None:
    first = starts(3)
    together = play(SearchAgent(agent(), CONFIG), first, [np.random.default_rng(k) for k in range(3)])
    for k in range(3):
        [alone] = play(SearchAgent(agent(), CONFIG), [first[k]], [np.random.default_rng(k)])
        assert alone[0] == together[k][0]


def test_ideas_are_the_tried_ones_first_and_as_many_as_were_asked_for() -> None:
    [state] = starts(1)
    ideas = SearchAgent(Table(), CONFIG).ideas(state, np.random.default_rng(0), 5)
    assert len(ideas) == 5
    tried = [each[2] > 0 for each in ideas]
    assert tried == sorted(tried, reverse=True)
    assert tried[0]
    assert len({each[0] for each in ideas}) == 5


def test_simulations_are_counted() -> None:
    world = Counting(Simulator())
    roots = SearchAgent(Table(), CONFIG, world).search(starts(3), [np.random.default_rng(k) for k in range(3)])
    assert world.count == sum(root.visits for root in roots) == 3 * CONFIG.budget
    state = roots[0].state
    assert world.steps([state], [None]) == Simulator().steps([state], [None])
    assert world.count == 3 * CONFIG.budget + 1
