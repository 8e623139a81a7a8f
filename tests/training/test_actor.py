"""What an actor plays: by chance, by value, by search, to be corrected, and to validate; and what it simulates for that."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from training.tiny import AGENT, CORRECTED, ONLINE, PLANNED, fresh, never_told_the_most, policy, request, returns

import trilith.evaluation.rollout as play_module
import trilith.search.simulator as simulator_module
import trilith.training.actor as actor_module
from trilith.agents.base import Correction, Decision
from trilith.agents.dqn.policy import HIGHEST, DQNPolicy, Exploration, allowed_values, observe
from trilith.evaluation.rollout import play, trajectories
from trilith.networks.inputs.scene_batch import KIND_OF_SLOT
from trilith.planners import Planner
from trilith.search.config import SearchConfig
from trilith.training.actor import CorrectRequest, Result, Simulated, ValidateRequest, collect, collect_timed, valid_states
from trilith.training.config import recipe_config
from trilith.world.episode import State, Step, start, step
from trilith.world.scene import SLOTS, Placement, Role
from trilith.world.tasks import get_task
from trilith.world.trajectory import Trajectory

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
        return [(each.placement, each.beside) for each in acting.act([states[k] for k in which], rngs, Exploration(2.0, (4.0, 4.0)))]

    assert decided([0, 1, 2, 3, 4, 5])[3:] == decided([3, 4, 5])


def test_under_forfeit_an_obstacle_touched_takes_back_all_that_an_episode_earned() -> None:
    acting = policy(replace(AGENT, foresight=0.0))
    kept, forfeited = (
        collect(acting, "covering_hard", request(40, 0.0, levels=HARDEST, warm_up=True, forfeit=forfeit)).episodes
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


# ---- what is simulated beside what is made

WIDE = replace(AGENT, counterfactual_actions=8)
NO_EXPLORING = Exploration(0.0, (4.0, 4.0))


class Foreseen:
    """A decision, what came of all its placements, and which of them was made."""

    def __init__(self, state: State, decision: Decision, acting: DQNPolicy, seed: int) -> None:
        self.state, self.before = state, decision.step.copy()  # type: ignore[union-attr]
        self.placements: list[Placement | None] = [decision.placement, *decision.beside]
        self.outcomes: list[Step] = [step(state, placement) for placement in self.placements]
        self.made = acting.foresee(decision, self.outcomes, np.random.default_rng(seed))
        assert decision.step is not None
        self.kept = decision.step

    @property
    def hit(self) -> bool:
        """Whether the chosen placement touched an obstacle."""
        return self.outcomes[0].state.ended == "obstacle_hit"

    @property
    def avoidable(self) -> bool:
        """Whether it did, and the episode would go on after one of the others."""
        return self.hit and any(each.state.ended is None for each in self.outcomes)


def foreseen(foresight: float, task: str = "covering_hard", count: int = 40) -> tuple[DQNPolicy, list[Foreseen]]:
    acting, rng = fresh(replace(WIDE, foresight=foresight), task), np.random.default_rng(0)
    states = [start(task, "hardest", rng) for _ in range(count)]
    told = NO_EXPLORING._replace(lengths=(4.0,) * len(get_task(task).levels))
    decisions = acting.act(states, [np.random.default_rng(k) for k in range(count)], told)
    return acting, [Foreseen(*each, acting, k) for k, each in enumerate(zip(states, decisions, strict=True))]


@pytest.mark.parametrize("foresight", [0.0, 1.0])
@pytest.mark.parametrize("task", ["covering_hard", "covering"])
def test_what_comes_of_every_action_is_kept_in_its_place(task: str, foresight: float) -> None:
    """Each action that is kept is decoded and simulated once more, also where another one was made than the one chosen."""
    acting, found = foreseen(foresight, task, 20)
    reasons = set()
    for each in found:
        kept, scene = each.kept, each.state.scene
        assert acting.layout.decode(scene, kept["action"].tolist()) == each.placements[each.made]
        count = len(each.placements) - 1
        assert 7 <= count <= 8
        assert (kept["beside"][count:] == -1).all()
        assert not kept["beside_ended"][count:].any()
        actions, rewards, ends = (kept[name][:count].tolist() for name in ("beside", "beside_reward", "beside_ended"))
        assert len({tuple(action) for action in [*actions, kept["action"].tolist()]}) == count + 1, "none is there twice"
        for action, reward, ended in zip(actions, rewards, ends, strict=True):
            after = step(each.state, acting.layout.decode(scene, action))
            assert reward == pytest.approx(after.reward, abs=1e-6)
            assert ended == (after.state.ended is not None)
            reasons.add(after.state.ended)
        if kept["beside_ended"][:count].all():
            assert kept["followed"] == -1
            continue
        assert not kept["beside_ended"][kept["followed"]]
        after = step(each.state, acting.layout.decode(scene, kept["beside"][kept["followed"]].tolist()))
        [record] = observe(acting.layout, [after.state])
        assert kept["after"].tobytes() == record.tobytes()
    assert {None, "obstacle_hit"} <= reasons


def test_without_foresight_the_chosen_action_is_made_whatever_comes_of_it() -> None:
    _, found = foreseen(0.0)
    assert sum(each.avoidable for each in found) > 5
    for each in found:
        assert each.made == 0
        assert each.kept["action"].tolist() == each.before["action"].tolist()
        assert each.kept["beside"].tolist() == each.before["beside"].tolist()


def test_with_foresight_an_obstacle_is_avoided_wherever_something_else_goes_on() -> None:
    _, found = foreseen(1.0)
    swapped = 0
    for each in found:
        if not each.avoidable:
            assert each.made == 0
            assert each.kept["beside"].tolist() == each.before["beside"].tolist()
            continue
        swapped += 1
        ended = [outcome.state.ended is not None for outcome in each.outcomes]
        assert each.made == ended.index(False), "that of the highest value of those that go on"
        place = each.made - 1
        assert each.kept["action"].tolist() == each.before["beside"][place].tolist()
        assert each.kept["beside"][place].tolist() == each.before["action"].tolist(), "what would have touched it is one of the others"
        assert each.kept["beside_ended"][place]
        assert each.kept["beside_reward"][place] == pytest.approx(each.outcomes[0].reward)
        others = [k for k in range(8) if k != place]  # those that there are not included
        assert each.kept["beside"][others].tolist() == each.before["beside"][others].tolist()
    assert swapped > 5


def test_foresight_is_a_probability() -> None:
    _, found = foreseen(0.5, count=120)
    avoidable = [each.made > 0 for each in found if each.avoidable]
    assert len(avoidable) > 25
    assert np.mean(avoidable) == pytest.approx(0.5, abs=0.25)


def test_half_of_the_others_are_of_the_highest_values_and_all_are_in_order() -> None:
    acting, rng = fresh(WIDE), np.random.default_rng(0)
    states = [start("covering_hard", 1, rng) for _ in range(12)]
    values = allowed_values(acting.net, observe(acting.layout, states))
    decisions = acting.act(states, [np.random.default_rng(k) for k in range(12)], NO_EXPLORING)
    drawn = Counter[bool]()
    for state, every, decision in zip(states, values, decisions, strict=True):
        assert decision.step is not None
        beside = decision.step["beside"][: len(decision.beside)].tolist()
        assert [acting.layout.decode(state.scene, action) for action in beside] == list(decision.beside)
        found = [float(every[KIND_OF_SLOT[slot], receiver - SLOTS, 2 * offset + sticky]) for slot, receiver, offset, sticky in beside]
        assert np.isfinite(found).all(), "the mask allows them"
        assert found == sorted(found, reverse=True)
        least = np.sort(every[np.isfinite(every)])[-HIGHEST]
        assert sum(value >= least for value in found) >= 3, "four, or three and the one that was chosen"
        drawn.update(value >= least for value in found)
    assert drawn[False] > 24, "the others are any"


def test_where_there_are_fewer_actions_than_asked_for_the_rest_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def three(net: Any, records: Any) -> Any:
        values = allowed_values(net, records)
        every = values.reshape(len(values), -1)
        for row in every:
            row[np.flatnonzero(np.isfinite(row))[3:]] = -np.inf
        return every.reshape(values.shape)

    monkeypatch.setattr("trilith.agents.dqn.policy.allowed_values", three)
    acting, state = fresh(WIDE), start("covering_hard", 1, np.random.default_rng(0))
    [decision] = acting.act([state], [np.random.default_rng(0)], NO_EXPLORING)
    assert len(decision.beside) == 2  # of three the one that was chosen
    each = Foreseen(state, decision, acting, 0)
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
        assert (episode.steps["followed"] == -1).all()


def test_an_agent_without_counterfactual_actions_keeps_none() -> None:
    result = collect(fresh(replace(AGENT, counterfactual_actions=0)), "covering_hard", request(4, 0.5))
    assert result.simulated.counterfactual == 0
    assert result.episodes[0].steps.dtype.names == ("state", "action", "reward")


def replays(trajectory: Trajectory | None) -> None:
    """Checks that every state follows from the one before by what was placed there."""
    assert trajectory is not None
    for k, placement in enumerate(trajectory.placements):
        assert step(trajectory.states[k], placement)[:2] == (trajectory.states[k + 1], trajectory.rewards[k])


@pytest.mark.parametrize(
    "asked",
    [request(4, 0.5, warm_up=True), CorrectRequest((0, 1), 4, HARDEST, False, Correction(4))],
    ids=["played", "corrected"],
)
def test_an_episode_comes_with_its_states_if_the_learner_wants_them(asked: Any) -> None:
    agents = (replace(agent, foresight=0.0) for agent in (AGENT, ONLINE))
    plain, whole = (collect(policy(agent), "covering_hard", asked).episodes for agent in agents)
    assert whole
    assert all(episode.trajectory is None for episode in plain)
    for one, two in zip(plain, whole, strict=True):
        assert one.steps.tobytes() == two.steps.tobytes()
        replays(two.trajectory)
        assert two.trajectory is not None
        assert two.steps["reward"].tolist() == pytest.approx(list(two.trajectory.rewards))
        assert two.correction == isinstance(asked, CorrectRequest)
        assert (two.exploration is None) == two.correction


def test_where_an_obstacle_was_avoided_the_states_of_an_episode_are_those_after_what_was_made() -> None:
    acting = policy(replace(ONLINE, counterfactual_actions=8, foresight=1.0))
    for episode in collect(acting, "covering_hard", request(12, 0.5, levels=HARDEST, warm_up=True)).episodes:
        replays(episode.trajectory)


# ---- corrections

FOUR = (0.0, 0.0, 0.0, 1.0, *[0.0] * 4)
"""Silhouettes of four targets."""


def played_before(acting: DQNPolicy, task: str, asked: CorrectRequest) -> list[Trajectory]:
    """What the policy played before anybody took over."""
    rules, rng = get_task(task), np.random.default_rng(asked.seed)
    levels = rng.choice(len(asked.levels), size=asked.episodes, p=asked.levels)
    starts = [start(rules, rules.levels[level], rng) for level in levels]
    return trajectories(acting.agent, starts, [np.random.default_rng((*asked.seed, 1, k)) for k in range(asked.episodes)], asked.forfeit)


@pytest.mark.parametrize("simulations", [0, 30], ids=["planner", "search"])
@pytest.mark.parametrize(("task", "levels"), [("silhouette", FOUR), ("covering_hard", HARDEST)])
def test_a_correction_begins_where_the_policy_came_by_and_earns_more(task: str, levels: Any, simulations: int) -> None:
    acting = fresh(replace(ONLINE, stop=False), task)
    asked = CorrectRequest((0, 1), 8, levels, False, Correction(simulations))
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
    acting = fresh(replace(PLANNED, stop=False), "silhouette")
    result = collect(acting, "silhouette", CorrectRequest((0, 1), 8, FOUR, False, Correction(0)))
    assert len(result.episodes) == 8  # an agent that has learned nothing builds none of these
    blocks = [int((episode.steps["state"]["role"][0] == Role.BLOCK).sum()) for episode in result.episodes]
    assert 0 in blocks
    assert max(blocks) > 0, "it takes over on the way too"
    whole = [sum(episode.steps["reward"]) for episode, there in zip(result.episodes, blocks, strict=True) if not there]
    assert whole == pytest.approx([4.0] * len(whole), abs=0.51)  # four targets, glue for one at most


def test_what_earns_no_more_than_the_policy_did_is_no_correction(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expert who goes on as the policy did earns as much, and shows nothing; the planner, asked about the same states, does."""
    acting, asked = fresh(replace(PLANNED, stop=False), "silhouette"), CorrectRequest((0, 1), 12, FOUR, False, Correction(0))
    played = played_before(acting, "silhouette", asked)
    assert any(each.states[-1].ended == "max_steps" for each in played), "which would be a correction by its end"
    assert len(collect(acting, "silhouette", asked).episodes) > 6

    def as_before(state: State) -> list[Any]:
        [own] = [each for each in played if state in each.states[:-1]]
        return list(own.placements[own.states.index(state) :])

    monkeypatch.setattr(actor_module, "plan_for", lambda task: as_before)
    assert collect(acting, "silhouette", asked).episodes == []


def test_a_search_of_more_simulations_corrects_more() -> None:
    acting = fresh(replace(CORRECTED, stop=False), "silhouette")
    few, many = (
        len(collect(acting, "silhouette", CorrectRequest((0, 1), 8, FOUR, False, Correction(budget))).episodes) for budget in (1, 60)
    )
    assert few < many <= 8


def test_nothing_is_corrected_of_a_flawless_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the planner in place of the network, on easy silhouettes, which it completes without glue."""
    monkeypatch.setattr(DQNPolicy, "agent", property(lambda self: Planner()))
    monkeypatch.setattr(actor_module, "plan_for", lambda task: pytest.fail("somebody is asked to do better"))
    result = collect(policy(PLANNED, "silhouette"), "silhouette", CorrectRequest((0, 1), 4, (1.0, *[0.0] * 7), False, Correction(0)))
    assert result.episodes == []
    assert result.simulated == Simulated(corrections=4), "a block each"


def test_a_task_without_a_planner_is_corrected_by_search_alone() -> None:
    acting, levels = fresh(CORRECTED, "own_task:Tower"), (0.0, 0.0, 1.0)
    assert collect(acting, "own_task:Tower", CorrectRequest((0, 1), 4, levels, False, Correction(10))).episodes
    with pytest.raises(ValueError, match="there is no planner for own_task:Tower"):
        collect(acting, "own_task:Tower", CorrectRequest((0, 1), 4, levels, False, Correction(0)))


@pytest.mark.parametrize(("task", "levels"), [("silhouette", FOUR), ("covering_hard", HARDEST), ("covering", (0.0, 0.0, 1.0))])
def test_an_own_search_corrects_without_asking_for_the_most_there_is_to_earn(
    task: str, levels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    acting = fresh(CORRECTED, task)
    never_told_the_most(monkeypatch)
    state = start(task, "hardest", np.random.default_rng(0))
    with pytest.raises(AssertionError, match="was asked for"):
        state.rules.best(state.scene)
    result = collect(acting, task, CorrectRequest((0, 1), 4, levels, False, Correction(12)))
    assert result.simulated.corrections > 48


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


@pytest.mark.parametrize(("counterfactual", "foresight"), [(0, 0.0), (3, 0.0), (8, 1.0)])
@pytest.mark.parametrize("warm_up", [False, True])
def test_the_steps_of_a_request_to_play_are_counted(counterfactual: int, foresight: float, warm_up: bool, simulated: Counter[str]) -> None:
    acting = fresh(replace(AGENT, counterfactual_actions=counterfactual, foresight=foresight))
    result = collect(acting, "covering_hard", request(8, 0.5, levels=HARDEST, warm_up=warm_up))
    made = sum(len(episode.steps) for episode in result.episodes)
    kept = sum(int((episode.steps["beside"][..., 0] >= 0).sum()) for episode in result.episodes) if counterfactual else 0
    assert result.simulated == Simulated(made, kept)
    assert max(counterfactual - 1, 0) * made <= kept <= counterfactual * made, "one less where the chosen action was drawn"
    assert simulated == {"actor": sum(result.simulated)}


@pytest.mark.parametrize("simulations", [0, 2, 20])
@pytest.mark.parametrize(("task", "levels"), [("silhouette", FOUR), ("covering_hard", HARDEST)])
def test_the_steps_of_a_request_to_correct_are_counted_with_those_of_its_searches(
    task: str, levels: Any, simulations: int, simulated: Counter[str]
) -> None:
    result = collect(fresh(CORRECTED, task), task, CorrectRequest((0, 1), 8, levels, False, Correction(simulations)))
    assert (simulated["simulator"] > 0) == (simulations > 0)
    assert result.simulated == Simulated(corrections=simulated.total())


def test_validations_are_not_learned_from_and_counts_add_up() -> None:
    assert collect(policy(), "covering_hard", ValidateRequest(0, 2, False)).simulated == Simulated()
    assert Simulated(1, 2, 3).plus(Simulated(10, 20, 30)) == Simulated(11, 22, 33)


def test_an_actor_process_tells_its_processor_time() -> None:
    acting, asked = policy(), request(8, 0.5)
    here, timed = collect(acting, "covering_hard", asked), collect_timed(acting, "covering_hard", asked)
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


def test_a_correction_whose_expert_stopped_did_not_end_with_its_last_step() -> None:
    kinds = set()
    for k in range(1, 4):
        asked = CorrectRequest((0, k), 8, HARDEST, False, Correction(0))
        for episode in collect(policy(), "covering_hard", asked).episodes:
            assert episode.correction
            kinds.add(episode.ended)
    assert kinds == {True, False}, "the planner completes some scenes, and stops in others"
