"""What an actor plays: by chance, by value, by search, to be corrected, and to validate; and what it simulates for that."""

from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from training.tiny import AGENT, CORRECTED, NET, ONLINE, fresh, policy, request, returns

import trilith.evaluation.play as play_module
import trilith.search.simulator as simulator_module
import trilith.training.actor as actor_module
from trilith.agents.base import Decision
from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dqn.policy import HIGHEST, DQNPolicy, Exploration, observe
from trilith.evaluation.play import play, trajectories
from trilith.networks.config import NetConfig
from trilith.networks.q.function import Listed
from trilith.planners import Planner
from trilith.search.agent import SearchAgent
from trilith.search.config import SearchConfig
from trilith.training.actor import CorrectRequest, Result, Simulated, ValidateRequest, collect, valid_states
from trilith.training.actor_pool import PolicySpec, _make_work
from trilith.training.config import recipe_config
from trilith.world.episode import State, Step, start, step
from trilith.world.scene import Placement, Role
from trilith.world.tasks import get_task
from trilith.world.trajectory import Trajectory

pytestmark = pytest.mark.slow

HARDEST = (0.0, 1.0)


@pytest.mark.parametrize("actions", ["relative", "relative_xy", "absolute"])
def test_the_first_steps_are_random_placements_that_overlap_nothing(actions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ends, taken = [], set()

    def spy(state: State, placement: Any, zero_on_hit: bool) -> Any:
        after = step(state, placement, zero_on_hit)
        ends.append(after.state.ended)
        return after

    monkeypatch.setattr("trilith.training.actor.step", spy)
    acting = policy(replace(recipe_config("gn-dqn").agent, actions=actions, offsets=7))
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
    explored: list[bool] = []
    monkeypatch.setattr("trilith.agents.dqn.policy.choose", lambda listed, random, rng: explored.append(random))
    for n in range(4):
        rngs = [np.random.default_rng((n, k)) for k in range(300)]
        policy().act([replace(state, steps=n) for state in states], rngs, Exploration(0.6, (3.0, 3.0)))
    assert np.array(explored).reshape(4, 300).mean(axis=1) == pytest.approx([0.2, 0.3, 0.6, 0.6], abs=0.08)


def test_what_happens_in_an_episode_does_not_depend_on_those_beside_it() -> None:
    acting, rng = policy(), np.random.default_rng(0)
    states = [start("covering_hard", 1, rng) for _ in range(6)]

    def decided(which: list[int]) -> list[Any]:
        rngs = [np.random.default_rng(k) for k in which]
        return [(each.placement, each.beside) for each in acting.act([states[k] for k in which], rngs, Exploration(2.0, (4.0, 4.0)))]

    assert decided([0, 1, 2, 3, 4, 5])[3:] == decided([3, 4, 5])


def test_with_zero_on_hit_an_obstacle_touched_takes_back_all_that_an_episode_earned() -> None:
    acting = policy(replace(AGENT, counterfactual_actions=0))  # or it would avoid obstacles
    kept, forfeited = (
        collect(acting, "covering_hard", request(40, 0.0, levels=HARDEST, warm_up=True, zero_on_hit=zero_on_hit)).episodes
        for zero_on_hit in (False, True)
    )
    changed = 0
    for one, two in zip(kept, forfeited, strict=True):
        assert one.steps["action"].tolist() == two.steps["action"].tolist()
        if one.steps["reward"].tolist() != two.steps["reward"].tolist():
            changed += 1
            assert two.steps["reward"].sum() == pytest.approx(0.0, abs=1e-6)
            assert one.steps["reward"][:-1].tolist() == two.steps["reward"][:-1].tolist()
    assert changed > 3


# ---- what is simulated beside what is made

WIDE = replace(AGENT, counterfactual_actions=8)
GRAPH = replace(WIDE, net=NetConfig("graph", width=8, recurrent=1))
"""Its network does not value states."""
NO_EXPLORING = Exploration(0.0, (4.0, 4.0))


class Foreseen(NamedTuple):
    """A decision, what came of all its placements, and which of them was made."""

    state: State
    before: np.void
    """What was kept of the decision at first."""
    kept: np.void
    """What is, once it is known what came of it."""
    placements: list[Placement | None]
    """The chosen one, then those beside it."""
    outcomes: list[Step]
    made: int

    @property
    def hit(self) -> bool:
        """Whether the chosen placement touched an obstacle."""
        return self.outcomes[0].state.ended == "obstacle_hit"

    @property
    def avoidable(self) -> bool:
        """Whether it did, and the episode would go on after one of the others."""
        return self.hit and any(each.state.ended is None for each in self.outcomes)


def far_sighted(agent: DQNConfig, task: str) -> DQNPolicy:
    """A fresh policy whose values of states, if it has any, are large beside rewards, and below 0 for some."""
    acting = fresh(agent, task)
    if acting.net.values_states:
        states = [start(task, "hardest", np.random.default_rng(k)) for k in range(20)]
        values = acting.net.state_values(observe(acting.schema.scenes, states))
        weights = acting.net.weights()
        weights["state_out.weight"] *= 1 / values.std()
        weights["state_out.bias"][:] = 2.0 - np.median(values) / values.std()
        acting.net.load(weights)
    return acting


def foresee(acting: DQNPolicy, states: list[State], decisions: list[Decision], told: Exploration) -> list[Foreseen]:
    """All placements are simulated, and the policy is shown what came of them."""
    before = [decision.step.copy() for decision in decisions]  # type: ignore[union-attr]
    placements = [[decision.placement, *decision.beside] for decision in decisions]
    outcomes = [[step(state, placement) for placement in some] for state, some in zip(states, placements, strict=True)]
    made = acting.foresee(decisions, outcomes, [np.random.default_rng((1, k)) for k in range(len(states))], told)
    kept = [decision.step for decision in decisions]
    return [Foreseen(*each) for each in zip(states, before, kept, placements, outcomes, made, strict=True)]  # type: ignore[arg-type]


def foreseen(
    lookahead: float, task: str = "covering_hard", count: int = 40, warm_up: bool = False, agent: DQNConfig = WIDE
) -> tuple[DQNPolicy, list[Foreseen]]:
    acting, rng = far_sighted(replace(agent, lookahead=lookahead), task), np.random.default_rng(0)
    states = [start(task, "hardest", rng) for _ in range(count)]
    told = Exploration(2.0, (4.0,) * len(get_task(task).levels), warm_up)  # half of the choices are random
    decisions = acting.act(states, [np.random.default_rng(k) for k in range(count)], told)
    return acting, foresee(acting, states, decisions, told)


def is_kept_in_its_place(acting: DQNPolicy, each: Foreseen) -> list[str | None]:
    """Decodes and simulates each action that is kept once more, and compares; returns how the episode ended after those beside."""
    kept, scene, count = each.kept, each.state.scene, len(each.placements) - 1
    assert kept["state"].tobytes() == observe(acting.schema, [each.state])[0].tobytes()
    assert acting.schema.decode(scene, kept["action"].tolist()) == each.placements[each.made]
    assert (kept["beside"][:count] >= 0).all()
    assert (kept["beside"][count:] == -1).all()
    assert not kept["beside_ended"][count:].any()
    actions, rewards, ends = (kept[name][:count].tolist() for name in ("beside", "beside_reward", "beside_ended"))
    every = {tuple(action) for action in [*actions, kept["action"].tolist()]}
    assert len(every) == count + 1, "none is there twice"
    assert every == {tuple(action) for action in [*each.before["beside"][:count].tolist(), each.before["action"].tolist()]}
    reasons, none = [], np.zeros(1, acting.schema.scenes.dtype)[0]
    for k, (action, reward, ended) in enumerate(zip(actions, rewards, ends, strict=True)):
        after = step(each.state, acting.schema.decode(scene, action))
        assert reward == pytest.approx(after.reward, abs=1e-6)
        assert ended == (after.state.ended is not None)
        reasons.append(after.state.ended)
        if acting.net.values_states:
            wanted = none if ended else observe(acting.schema.scenes, [after.state])[0]
            assert kept["after"][k].tobytes() == wanted.tobytes()
    assert not acting.net.values_states or not any(each.tobytes().strip(b"\0") for each in kept["after"][count:])
    return reasons


def stays_as_it_was(each: Foreseen) -> None:
    """Checks that the chosen placement is made."""
    assert each.made == 0
    assert each.kept["action"].tolist() == each.before["action"].tolist()
    assert each.kept["beside"].tolist() == each.before["beside"].tolist()


def changes_places(each: Foreseen) -> None:
    """Checks that the placement that is made instead of the chosen one has changed places with it, and no other has."""
    place, actions = each.made - 1, each.before["beside"].tolist()
    assert each.kept["action"].tolist() == actions[place]
    assert each.kept["beside"][place].tolist() == each.before["action"].tolist()
    assert each.kept["beside_reward"][place] == pytest.approx(each.outcomes[0].reward)
    others = [k for k in range(len(actions)) if k != place]  # those that there are not included
    assert each.kept["beside"][others].tolist() == each.before["beside"][others].tolist()


def promises(acting: DQNPolicy, outcomes: list[Step], gamma: float) -> list[float]:
    """r + γ V(s') of each outcome, of one at a time; what is over is worth its reward, and no state less than nothing."""
    found = []
    for outcome in outcomes:
        later = 0.0
        if outcome.state.ended is None:
            [value] = acting.net.state_values(observe(acting.schema.scenes, [outcome.state]))
            later = max(float(value), 0.0)
        found.append(outcome.reward + gamma * later)
    return found


@pytest.mark.parametrize(("lookahead", "warm_up"), [(0.0, False), (0.5, False), (1.0, False), (1.0, True)])
@pytest.mark.parametrize("task", ["covering_hard", "covering"])
@pytest.mark.parametrize("network", ["objects", "graph"])
def test_what_comes_of_every_action_is_kept_in_its_place(task: str, lookahead: float, warm_up: bool, network: str) -> None:
    """Also where another one was made than the one chosen, with how many steps are left as part of the states."""
    net = replace(NET, clock=True) if network == "objects" else GRAPH.net
    acting, found = foreseen(lookahead, task, 12, warm_up, replace(WIDE, net=net))
    assert ("after" in (acting.dtype.names or ())) == acting.net.values_states == (network == "objects")
    reasons = set[str | None]()
    for each in found:
        assert 7 <= len(each.placements) - 1 <= 8
        reasons |= set(is_kept_in_its_place(acting, each))
        (changes_places if each.made else stays_as_it_was)(each)
    assert {None, "obstacle_hit"} <= reasons
    swapped = [each.made for each in found if each.made]
    assert bool(swapped) == (warm_up or (lookahead > 0 and network == "objects"))
    assert not lookahead or network != "objects" or warm_up or len(set(swapped)) > 2, "more than one place is taken"


def test_without_lookahead_the_chosen_action_is_made_whatever_comes_of_it() -> None:
    _, found = foreseen(0.0)
    assert sum(each.avoidable for each in found) > 5
    for each in found:
        stays_as_it_was(each)


@pytest.mark.parametrize("discount", [0.0, 0.5, 1.0])
def test_with_lookahead_the_action_is_made_of_the_highest_reward_and_value_after_it(discount: float) -> None:
    acting, found = foreseen(1.0, agent=replace(WIDE, discount=discount))
    later, chosen, below = 0, 0, 0
    for each in found:
        promised = promises(acting, each.outcomes, discount)
        assert promised[each.made] == pytest.approx(max(promised), abs=1e-5)
        (changes_places if each.made else stays_as_it_was)(each)
        later += each.made != int(np.argmax([outcome.reward for outcome in each.outcomes]))
        chosen += each.made == 0
        going_on = [outcome.state for outcome in each.outcomes if outcome.state.ended is None]
        below += bool(going_on) and bool((acting.net.state_values(observe(acting.schema.scenes, going_on)) < 0).any())
    assert (later > 5) == (discount > 0), "what is earned at once is not all"
    assert chosen > 0, "what was chosen may be the best"
    assert below > 0, "some states are worth less than nothing to the network"


def test_a_state_below_nothing_is_worth_nothing_to_who_looks_ahead() -> None:
    """All states are worth -9: of two that earn the same, the one that ends the episode is not better than the one that goes on."""
    acting, rng = fresh(replace(WIDE, lookahead=1.0)), np.random.default_rng(0)
    weights = acting.net.weights()
    weights["state_out.weight"][:], weights["state_out.bias"][:] = 0.0, -9.0
    acting.net.load(weights)
    states = [start("covering_hard", "hardest", rng) for _ in range(40)]
    decisions = acting.act(states, [np.random.default_rng(k) for k in range(40)], NO_EXPLORING._replace(epsilon=4.0))
    goes_on = 0
    for each in foresee(acting, states, decisions, NO_EXPLORING):
        rewards, ended = zip(*((outcome.reward, bool(outcome.state.ended)) for outcome in each.outcomes), strict=True)
        assert each.made == rewards.index(max(rewards)), "the first of the best"
        goes_on += not ended[each.made] and (max(rewards), True) in zip(rewards, ended, strict=True)
    assert goes_on > 3


@pytest.mark.parametrize("agent", [WIDE, replace(WIDE, mask="edges"), GRAPH], ids=["objects", "objects, edges", "graph"])
@pytest.mark.parametrize("lookahead", [0.0, 1.0])
def test_in_the_warm_up_an_obstacle_is_avoided_wherever_something_else_goes_on(lookahead: float, agent: DQNConfig) -> None:
    _, found = foreseen(lookahead, warm_up=True, agent=agent)
    swapped, others = 0, 0
    for each in found:
        if not each.avoidable:
            stays_as_it_was(each)
            others += each.outcomes[0].state.ended not in (None, "obstacle_hit")
            continue
        swapped += 1
        assert each.made == [outcome.state.ended is None for outcome in each.outcomes].index(True), "that of the highest value"
        changes_places(each)
        assert each.kept["beside_ended"][each.made - 1], "what would have touched it is one of the others"
    assert 5 < swapped < len(found)
    assert (others > 0) == (agent.mask == "edges"), "other ends are not avoided"


def test_a_network_that_values_no_states_makes_what_it_chose() -> None:
    _, found = foreseen(1.0, agent=GRAPH)
    assert sum(each.avoidable for each in found) > 5
    for each in found:
        stays_as_it_was(each)


def test_lookahead_is_a_probability() -> None:
    (_, never), (_, sometimes), (_, always) = (foreseen(lookahead, count=120) for lookahead in (0.0, 0.5, 1.0))
    assert not any(each.made for each in never)
    would = [(one.made, other.made) for one, other in zip(sometimes, always, strict=True) if other.made]
    assert all(one in (0, other) for one, other in would)
    assert len(would) > 60
    assert np.mean([one > 0 for one, _ in would]) == pytest.approx(0.5, abs=0.15)


def test_what_is_made_does_not_depend_on_the_decisions_beside_it() -> None:
    acting, together = foreseen(0.5, count=12)
    assert 0 < sum(each.made > 0 for each in together) < 12
    for k, each in enumerate(together):
        decision = Decision(each.placements[0], each.before.copy(), tuple(each.placements[1:]))  # type: ignore[arg-type]
        assert acting.foresee([decision], [each.outcomes], [np.random.default_rng((1, k))], NO_EXPLORING) == [each.made]
        assert decision.step is not None
        assert decision.step.tobytes() == each.kept.tobytes()


@pytest.mark.parametrize("warm_up", [False, True])
@pytest.mark.parametrize("agent", ["objects", "graph", "objects, nothing beside"])
def test_where_nothing_goes_on_there_is_nothing_to_foresee(agent: str, warm_up: bool) -> None:
    """No decision at all, or none after which the episode goes on: every episode that runs alone comes to that."""
    config = {"objects": WIDE, "graph": GRAPH, "objects, nothing beside": replace(WIDE, counterfactual_actions=0)}[agent]
    acting, told = fresh(config), NO_EXPLORING._replace(warm_up=warm_up)
    assert acting.foresee([], [], [], told) == []
    state = start("covering_hard", 1, np.random.default_rng(0))
    last = replace(state, steps=state.max_steps - 1)
    decisions = acting.act([last, last], [np.random.default_rng(k) for k in range(2)], told)
    for each in foresee(acting, [last, last], decisions, told):
        assert all(outcome.state.ended for outcome in each.outcomes)
        assert not config.counterfactual_actions or is_kept_in_its_place(acting, each)


@pytest.mark.parametrize("lookahead", [0.0, 1.0])
def test_an_actor_makes_what_its_policy_foresees(lookahead: float) -> None:
    """Whole episodes: what was made promises most of all that was simulated, and leads to the state that is kept next."""
    acting = far_sighted(replace(WIDE, lookahead=lookahead), "covering_hard")
    gamma, names = acting.config.discount, list(acting.schema.scenes.dtype.names or ())

    def later(records: Any) -> Any:
        return gamma * np.maximum(acting.net.state_values(records), 0.0) if len(records) else 0.0

    best = []
    for episode in collect(acting, "covering_hard", request(24, 0.5, levels=HARDEST)).episodes:
        following = episode.steps["state"][names].astype(acting.schema.scenes.dtype)[1:]
        made = episode.steps["reward"].astype(float)
        made[:-1] += later(following)
        for kept, promised in zip(episode.steps, made, strict=True):
            there = kept["beside"][:, 0] >= 0
            goes_on = there & ~kept["beside_ended"]
            others = kept["beside_reward"].astype(float)
            others[goes_on] += later(kept["after"][goes_on])
            best.append(promised >= others[there].max() - 1e-5)
        if not episode.ended:  # the state after the last step is not kept
            best.pop()
    assert len(best) > 24
    assert all(best) == (lookahead == 1.0)


def test_half_of_the_others_are_of_the_highest_values_and_all_are_in_order() -> None:
    acting, rng = fresh(WIDE), np.random.default_rng(0)
    states = [start("covering_hard", 1, rng) for _ in range(12)]
    listed = acting.net.listed(observe(acting.schema, states))
    decisions = acting.act(states, [np.random.default_rng(k) for k in range(12)], NO_EXPLORING)
    drawn = Counter[bool]()
    for state, (indices, values), decision in zip(states, listed, decisions, strict=True):
        assert decision.step is not None
        beside = decision.step["beside"][: len(decision.beside)].tolist()
        assert [acting.schema.decode(state.scene, action) for action in beside] == list(decision.beside)
        by_index = dict(zip(indices.tolist(), values.tolist(), strict=True))
        found = [by_index[index] for index in acting.schema.index(np.array(beside)).tolist()]  # the mask allows them, or they are not there
        assert found == sorted(found, reverse=True)
        least = np.sort(values)[-HIGHEST]
        assert sum(value >= least for value in found) >= 3, "four, or three and the one that was chosen"
        drawn.update(value >= least for value in found)
    assert drawn[False] > 24, "the others are any"


def test_where_there_are_fewer_actions_than_asked_for_the_rest_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    acting, state = fresh(WIDE), start("covering_hard", 1, np.random.default_rng(0))
    listed = acting.net.listed
    monkeypatch.setattr(acting.net, "listed", lambda records: [Listed(*(part[:3] for part in each)) for each in listed(records)])
    [decision] = acting.act([state], [np.random.default_rng(0)], NO_EXPLORING)
    assert len(decision.beside) == 2  # of three the one that was chosen
    [each] = foresee(acting, [state], [decision], NO_EXPLORING)
    is_kept_in_its_place(acting, each)
    assert (each.kept["beside"][:2] >= 0).all()
    assert (each.kept["beside"][2:] == -1).all()
    assert not each.kept["beside_ended"][2:].any()


def test_actors_that_search_simulate_nothing_beside_what_they_make() -> None:
    acting = fresh(replace(WIDE, search=SearchConfig(5)))
    asked = request(4, 0.5, levels=HARDEST)
    result = collect(acting, "covering_hard", asked)
    assert returns(collect(acting, "covering_hard", asked)) == returns(result)
    assert result.simulated.counterfactual == 0
    for episode in result.episodes:
        assert (episode.steps["beside"] == -1).all()
        assert not episode.steps["after"]["count"].any()


def test_an_agent_without_counterfactual_actions_keeps_none() -> None:
    result = collect(fresh(replace(AGENT, counterfactual_actions=0)), "covering_hard", request(4, 0.5))
    assert result.simulated.counterfactual == 0
    assert result.episodes[0].steps.dtype.names == ("state", "action", "reward")


def replays(trajectory: Trajectory | None) -> None:
    """Checks that every state follows from the one before by what was placed there."""
    assert trajectory is not None
    for k, placement in enumerate(trajectory.placements):
        assert step(trajectory.states[k], placement)[:2] == (trajectory.states[k + 1], trajectory.rewards[k])


@pytest.mark.longest
@pytest.mark.parametrize(
    "asked",
    [request(4, 0.5, warm_up=True), CorrectRequest((0, 1), 4, HARDEST, False)],
    ids=["played", "corrected"],
)
def test_an_episode_comes_with_its_states_if_the_learner_wants_them(asked: Any) -> None:
    plain, whole = (collect(policy(agent), "covering_hard", asked).episodes for agent in (AGENT, ONLINE))
    assert whole
    assert all(episode.trajectory is None for episode in plain)
    for one, two in zip(plain, whole, strict=True):
        assert one.steps.tobytes() == two.steps.tobytes()
        replays(two.trajectory)
        assert two.trajectory is not None
        assert two.steps["reward"].tolist() == pytest.approx(list(two.trajectory.rewards))
        assert two.correction == isinstance(asked, CorrectRequest)
        assert (two.exploration is None) == two.correction


@pytest.mark.parametrize("told", [{"warm_up": True}, {"search": False}], ids=["an obstacle was avoided", "it looked ahead"])
def test_where_another_action_was_made_the_states_of_an_episode_are_those_after_it(told: dict[str, bool]) -> None:
    acting = fresh(replace(ONLINE, counterfactual_actions=8, lookahead=1.0))
    for episode in collect(acting, "covering_hard", request(12, 0.5, levels=HARDEST, **told)).episodes:
        replays(episode.trajectory)
        assert episode.trajectory is not None
        states = episode.trajectory.states[: len(episode.steps)]
        assert episode.steps["state"].tobytes() == observe(acting.schema, states).tobytes()
        for state, kept, placement in zip(states, episode.steps, episode.trajectory.placements, strict=True):
            assert acting.schema.decode(state.scene, kept["action"].tolist()) == placement


# ---- corrections

FOUR = (0.0, 0.0, 0.0, 1.0, *[0.0] * 4)
"""Silhouettes of four targets."""


def played_before(acting: DQNPolicy, task: str, asked: CorrectRequest) -> list[Trajectory]:
    """What the policy played before anybody took over."""
    rules, rng = get_task(task), np.random.default_rng(asked.seed)
    levels = rng.choice(len(asked.levels), size=asked.episodes, p=asked.levels)
    starts = [start(rules, rules.levels[level], rng) for level in levels]
    return trajectories(
        acting.agent, starts, [np.random.default_rng((*asked.seed, 1, k)) for k in range(asked.episodes)], asked.zero_on_hit
    )


@pytest.mark.longest
@pytest.mark.parametrize(("task", "levels"), [("silhouette", FOUR), ("covering_hard", HARDEST)])
def test_a_correction_begins_where_the_policy_came_by_and_earns_more(task: str, levels: Any) -> None:
    acting = fresh(replace(ONLINE, stop=False), task)
    asked = CorrectRequest((0, 1), 8, levels, False)
    result = collect(acting, task, asked)
    assert returns(collect(acting, task, asked)) == returns(result)
    assert 0 < len(result.episodes) <= 8
    before = played_before(acting, task, asked)
    for episode in result.episodes:
        assert episode.correction
        assert episode.exploration is None
        assert (episode.steps["beside"] == -1).all(), "nothing is simulated beside it"
        assert episode.trajectory is not None
        first, *_, end = episode.trajectory.states
        [own] = [each for each in before if first in each.states[:-1]]
        assert end.total > own.states[-1].total
        assert first.total + episode.steps["reward"].sum() == pytest.approx(end.total, abs=1e-5)


def test_the_planner_corrects_all_that_it_can_do_better() -> None:
    acting = fresh(replace(CORRECTED, stop=False), "silhouette")
    result = collect(acting, "silhouette", CorrectRequest((0, 1), 8, FOUR, False))
    assert len(result.episodes) == 8  # an agent that has learned nothing builds none of these
    blocks = [int((episode.steps["state"]["role"][0] == Role.BLOCK).sum()) for episode in result.episodes]
    assert 0 in blocks
    assert max(blocks) > 0, "it takes over on the way too"
    whole = [sum(episode.steps["reward"]) for episode, there in zip(result.episodes, blocks, strict=True) if not there]
    assert whole == pytest.approx([4.0] * len(whole), abs=0.51)  # four targets, glue for one at most


def test_what_earns_no_more_than_the_policy_did_is_no_correction(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expert who goes on as the policy did earns as much, and shows nothing; the planner, asked about the same states, does."""
    acting, asked = fresh(replace(CORRECTED, stop=False), "silhouette"), CorrectRequest((0, 1), 12, FOUR, False)
    played = played_before(acting, "silhouette", asked)
    assert any(each.states[-1].ended == "max_steps" for each in played), "which would be a correction by its end"
    assert len(collect(acting, "silhouette", asked).episodes) > 6

    def as_before(state: State) -> list[Any]:
        [own] = [each for each in played if state in each.states[:-1]]
        return list(own.placements[own.states.index(state) :])

    monkeypatch.setattr(actor_module, "plan_for", lambda task: as_before)
    assert collect(acting, "silhouette", asked).episodes == []


def test_nothing_is_corrected_of_a_flawless_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the planner in place of the network, on easy silhouettes, which it completes without glue."""
    monkeypatch.setattr(DQNPolicy, "agent", property(lambda self: Planner()))
    monkeypatch.setattr(actor_module, "plan_for", lambda task: pytest.fail("somebody is asked to do better"))
    result = collect(policy(CORRECTED, "silhouette"), "silhouette", CorrectRequest((0, 1), 4, (1.0, *[0.0] * 7), False))
    assert result.episodes == []
    assert result.simulated == Simulated(corrections=4), "a block each"


def test_a_task_without_a_planner_has_no_corrections() -> None:
    acting, levels = fresh(CORRECTED, "own_task:Tower"), (0.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="there is no planner for own_task:Tower"):
        collect(acting, "own_task:Tower", CorrectRequest((0, 1), 4, levels, False))


# ---- what it took


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the steps of the simulator by where they are made from."""
    count = Counter[str]()
    for module in (actor_module, play_module, simulator_module):

        def counted(*given: Any, name: str = module.__name__.rpartition(".")[2], **named: Any) -> Step:
            count[name] += 1
            return step(*given, **named)

        monkeypatch.setattr(module, "step", counted)
    return count


@pytest.mark.parametrize(("counterfactual", "lookahead"), [(0, 0.0), (3, 0.0), (8, 1.0)])
@pytest.mark.parametrize("warm_up", [False, True])
def test_the_steps_of_a_request_to_play_are_counted(counterfactual: int, lookahead: float, warm_up: bool, simulated: Counter[str]) -> None:
    acting = fresh(replace(AGENT, counterfactual_actions=counterfactual, lookahead=lookahead))
    result = collect(acting, "covering_hard", request(8, 0.5, levels=HARDEST, warm_up=warm_up))
    made = sum(len(episode.steps) for episode in result.episodes)
    kept = sum(int((episode.steps["beside"][..., 0] >= 0).sum()) for episode in result.episodes) if counterfactual else 0
    assert result.simulated == Simulated(made, kept)
    assert max(counterfactual - 1, 0) * made <= kept <= counterfactual * made, "one less where the chosen action was drawn"
    assert simulated == {"actor": result.simulated.total}


@pytest.mark.parametrize(("task", "levels"), [("silhouette", FOUR), ("covering_hard", HARDEST)])
def test_the_steps_of_a_request_to_correct_are_counted_but_for_those_of_the_planner(
    task: str, levels: Any, simulated: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = actor_module.plan_for(task)

    def uncounted(state: State) -> list[Any]:
        before = simulated.copy()
        found = list(plan(state))
        simulated.clear()
        simulated.update(before)
        return found

    monkeypatch.setattr(actor_module, "plan_for", lambda task: uncounted)
    result = collect(fresh(CORRECTED, task), task, CorrectRequest((0, 1), 4, levels, False))
    assert result.simulated == Simulated(corrections=simulated.total())


def test_validations_are_not_learned_from_and_counts_add_up() -> None:
    assert collect(policy(), "covering_hard", ValidateRequest(0, 2, False)).simulated == Simulated()
    assert Simulated(1, 2, 3).plus(Simulated(10, 20, 30)) == Simulated(11, 22, 33)


def test_an_actor_process_tells_its_processor_time() -> None:
    acting, asked = policy(), request(8, 0.5)
    here, timed = collect(acting, "covering_hard", asked), _make_work(PolicySpec("dqn", AGENT, "covering_hard"))(asked, acting.weights())
    assert here.cpu_seconds == 0, "that of this process is counted by the run"
    assert timed.cpu_seconds > 0

    def told(result: Result) -> Any:
        return [episode.steps.tobytes() for episode in result.episodes], result.simulated

    assert told(timed) == told(here)


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


def test_a_validation_of_a_policy_that_searches_searches_too() -> None:
    searched = replace(AGENT, counterfactual_actions=0, search=SearchConfig(8, algorithm="rollout"))
    plain, searching = (collect(policy(config), "covering_hard", ValidateRequest(0, 6, False)).rewards for config in (AGENT, searched))
    assert searching["hardest"] != plain["hardest"]
    agent = SearchAgent(policy(AGENT).agent, searched.search)
    rngs = [np.random.default_rng((0, k)) for k in range(6)]
    ends = [end.total for _, end in play(agent, valid_states("covering_hard", "hardest", 6), rngs)]
    assert searching["hardest"] == pytest.approx(np.mean(ends))


def test_a_correction_whose_expert_stopped_did_not_end_with_its_last_step() -> None:
    kinds = set()
    for k in range(1, 7):
        asked = CorrectRequest((0, k), 4, HARDEST, False)
        for episode in collect(policy(), "covering_hard", asked).episodes:
            assert episode.correction
            kinds.add(episode.ended)
        if len(kinds) == 2:
            break
    assert kinds == {True, False}, "the planner completes some scenes, and stops in others"
