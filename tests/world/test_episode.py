"""The rules: every way an episode can end, what each step earns, and that an episode is a value which can be stored."""

import copy
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import LARGE_SLOT, MEDIUM_SLOT, SMALL_SLOT, digest, in_another_process, played

from trilith.agents.random_agents import LegalAgent
from trilith.world import episode
from trilith.world.episode import REASONS, Recording, State, start, step
from trilith.world.physics import Settled
from trilith.world.scene import INVALID_EDGE, MEDIUM, Placement, Role, Scene, checked_placement, fresh_scene
from trilith.world.tasks import TASKS
from trilith.world.tasks.task import layer_y

FAR = Placement(SMALL_SLOT, -6.0, 0.36)
"""A block that earns nothing and harms nothing."""


def covering(*obstacles: float, task="covering") -> State:
    """A Covering episode with obstacles 1 m wide in the lowest layer, centred at these x."""
    return State(fresh_scene([], [(x, layer_y(0), 1.0, 0.35) for x in obstacles]), task, 0)


def connecting(*targets: tuple[float, float]) -> State:
    """A Connecting episode with targets at these places and an obstacle far to the right."""
    return State(fresh_scene([(x, y, 0.35, 0.35) for x, y in targets], [(5.0, layer_y(0), 1.0, 0.35)]), "connecting", 2)


def silhouette(*targets: tuple[float, float]) -> State:
    """A Silhouette episode with medium targets at these (x, layer) and an obstacle far to the right."""
    return State(fresh_scene([(x, layer_y(k), MEDIUM, 0.7) for x, k in targets], [(5.0, layer_y(0), 2.1, 0.35)]), "silhouette", 7)


def shelter(x: float) -> list[Placement]:
    """A table over the obstacle at x: two pillars and a plank."""
    return [Placement(SMALL_SLOT, x - 1.2, 0.36), Placement(SMALL_SLOT, x + 1.2, 0.36), Placement(LARGE_SLOT, x, 1.07)]


def play(state: State, *placements, **options) -> list[episode.Step]:
    steps = []
    for placement in placements:
        steps.append(step(state, placement, **options))
        state = steps[-1].state
    return steps


# How episodes end


def test_bad_choice_is_a_block_that_is_used_up():
    first, second = play(covering(0.0, task="covering_hard"), FAR, Placement(FAR.slot, 3.0, 0.36))
    assert first.state.ended is None
    assert (second.state.ended, second.reward, second.settled) == ("bad_choice", 0.0, None)
    assert second.state.scene == first.state.scene


@pytest.mark.parametrize(("placement", "reason"), [(None, "stopped"), (INVALID_EDGE, "invalid_edge")])
@pytest.mark.parametrize("zero_on_hit", [False, True])
def test_who_stops_and_who_chooses_an_invalid_edge_keep_what_they_earned_and_end_by_reasons_of_their_own(placement, reason, zero_on_hit):
    state = replace(covering(0.0), total=1.5)
    result = step(state, placement, zero_on_hit)
    assert (result.state.ended, result.state.total, result.reward, result.settled) == (reason, 1.5, 0.0, None)
    assert result.state.scene == state.scene


@pytest.mark.parametrize(
    "placement",
    [Placement(SMALL_SLOT, 0.0, 0.6), Placement(SMALL_SLOT, 3.0, 0.34), Placement(SMALL_SLOT, -5.5, 0.5), Placement(SMALL_SLOT, 2.0, -3.0)],
    ids=["obstacle", "floor", "block", "clipped into the floor"],
)
def test_spawn_collision_is_a_block_that_overlaps_something_solid(placement):
    before = step(covering(0.0), FAR).state
    result = step(before, placement)
    assert (result.state.ended, result.reward, result.settled) == ("spawn_collision", 0.0, None)
    assert result.state.scene == before.scene


def test_targets_and_available_blocks_are_not_solid():
    state = connecting((0.0, 0.36), (3.0, 2.0), (3.0, 3.0))
    assert step(state, Placement(SMALL_SLOT, 0.0, 0.36)).reward == 1.0


def test_obstacle_hit_is_a_block_that_touches_an_obstacle_while_settling():
    result = step(covering(0.0), Placement(MEDIUM_SLOT, 0.9, 5.0))
    assert (result.state.ended, result.reward, result.settled.hit) == ("obstacle_hit", 0.0, True)


def test_obstacle_hit_is_also_a_block_tipped_onto_one_by_another():
    balance = [Placement(SMALL_SLOT, -1.2, 0.36), Placement(MEDIUM_SLOT, -1.0, 1.07)]
    results = play(covering(0.0), *balance, Placement(MEDIUM_SLOT, -0.3, 1.78))
    assert [result.state.ended for result in results] == [None, None, "obstacle_hit"]


@pytest.mark.parametrize("task", ["covering", "covering_hard"])
def test_complete_in_covering_is_all_of_it_covered(task):
    results = play(covering(0.0, task=task), *(p._replace(slot=slot) for slot, p in zip((0, 1, 6), shelter(0.0), strict=True)))
    assert [result.reward for result in results] == pytest.approx([0.0, 0.0, 1.0])
    assert results[-1].state.ended == "complete"


def test_complete_in_connecting_is_all_three_targets():
    state = connecting((-1.0, 0.35), (0.0, 0.35), (1.0, 0.35))
    result = step(state, Placement(LARGE_SLOT, 0.0, 0.36))
    assert (result.reward, result.state.ended) == (3.0, "complete")


def test_complete_in_silhouette_is_every_target_even_with_the_last_step():
    first, second = play(silhouette((0.0, 0), (0.0, 1)), Placement(MEDIUM_SLOT, 0.0, 0.39), Placement(MEDIUM_SLOT, 0.0, 1.09))
    assert (first.reward, first.state.ended) == (1.0, None)
    assert (second.reward, second.state.ended) == (1.0, "complete")


def test_max_steps_is_the_number_of_targets_in_silhouette():
    results = play(silhouette((0.0, 0), (0.0, 1)), FAR, FAR._replace(x=-4.5))
    assert [result.state.ended for result in results] == [None, "max_steps"]
    assert results[0].state.max_steps == 2


def test_max_steps_is_seven_in_connecting():
    results = play(connecting(*[(3.0, 3.0)] * 3), *(FAR._replace(x=-6.5 + k) for k in range(7)))
    assert [result.state.ended for result in results] == [None] * 6 + ["max_steps"]


def test_max_steps_in_covering_is_28():
    state = State(covering(0.0).scene, "covering", 0, steps=26)
    assert [result.state.ended for result in play(state, FAR, FAR._replace(x=-4.5))] == [None, "max_steps"]


def test_max_steps_in_covering_hard_is_no_block_left():
    smalls = [Placement(k, -6.5, layer_y(k) + 0.02) for k in range(3)]
    mediums = [Placement(3 + k, -4.0, layer_y(k) + 0.02) for k in range(3)]
    results = play(covering(0.0, task="covering_hard"), *smalls, *mediums, Placement(6, 4.0, 0.36))
    assert [result.state.ended for result in results] == [None] * 6 + ["max_steps"]
    assert not (results[-1].state.scene.role == Role.AVAILABLE).any()
    assert len(results[-1].state.scene) == len(covering(0.0).scene)


@pytest.mark.parametrize("field", ["pose", "velocity"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_simulation_is_something_that_is_not_finite(monkeypatch, field, value):
    def broken(scene, record):
        arrays = {name: getattr(scene, name).copy() for name in Scene.__dataclass_fields__}
        arrays[field][-1, 0] = value
        return Settled(Scene(**arrays), False, 1, None)

    before = play(connecting((0.0, 0.35), (3.0, 3.0), (3.0, 3.0)), Placement(SMALL_SLOT, 0.0, 0.36))[0].state
    monkeypatch.setattr(episode, "settle", broken)
    result = step(before, FAR)
    assert (result.state.ended, result.reward) == ("bad_simulation", 0.0)
    assert result.state.scene == before.scene  # the last one that makes sense
    assert result.state.total == before.total == 1.0


def test_random_play_meets_every_reason_but_a_broken_simulation_and_nothing_else():
    found = set()
    for task in TASKS:
        for seed in range(30):
            found.add(played(task, "all", seed)[-1].ended)
    assert {"obstacle_hit", "complete", "max_steps"} <= found <= set(REASONS)


def test_acting_after_the_end_is_an_error_that_says_so():
    ended = step(covering(0.0), None).state
    for placement in (FAR, None):
        with pytest.raises(ValueError, match=r"ended \(stopped\)"):
            step(ended, placement)


@pytest.mark.parametrize("bad", [Placement(0, np.nan, 1.0), Placement(0, 1.0, -np.inf), Placement(9, 1.0, 1.0)])
def test_a_placement_that_is_none_is_refused_and_the_episode_goes_on(bad):
    state = covering(0.0)
    with pytest.raises(ValueError, match=r"nan|inf|slot must be 0 to 6"):
        step(state, bad)
    assert step(state, FAR).state.ended is None


ODD = st.one_of(
    st.none(), st.booleans(), st.text(max_size=3), st.integers(), st.floats(), st.just(10**400), st.just(np.zeros(2)), st.complex_numbers(),
    st.sampled_from([np.float32(1), np.int64(3), np.bool_(True), np.array(2), object(), [], {}, b"1"]),
)  # fmt: skip


@settings(max_examples=300)
@given(st.one_of(ODD, st.tuples(ODD, ODD, ODD, ODD), st.lists(ODD, max_size=6), st.builds(Placement, ODD, ODD, ODD, ODD)))
def test_anything_is_a_placement_or_is_refused_in_one_short_line(odd):
    message = ""
    try:
        step(covering(0.0), odd)
    except ValueError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < 200


@pytest.mark.parametrize("sticky", ["no", 1, None, 0.0])
def test_sticky_is_yes_or_no_and_nothing_else(sticky):
    with pytest.raises(ValueError, match="sticky must be true or false"):
        step(covering(0.0), Placement(0, -6.0, 1.0, sticky))


def test_a_step_is_from_a_state():
    with pytest.raises(ValueError, match=r"must be a trilith\.State"):
        step(covering(0.0).scene, FAR)


@pytest.mark.parametrize("rng", [0, None, np.random, np.random.RandomState(0)])
def test_a_scene_is_drawn_from_a_generator(rng):
    with pytest.raises(ValueError, match=r"^rng .*: must be a numpy\.random\.Generator, such as numpy\.random\.default_rng\(0\)$"):
        episode.start("covering", 0, rng)


def test_a_task_that_no_process_finds_by_its_name_is_refused_at_the_start():
    lost = type("Lost", (type(TASKS["covering"]),), {"name": "lost"})()
    with pytest.raises(ValueError, match="there is no task 'lost'"):
        episode.start(lost, 0, np.random.default_rng(0))


@pytest.mark.parametrize("zero_on_hit", ["no", 0, None])
def test_zero_on_hit_is_yes_or_no_and_nothing_else(zero_on_hit):
    with pytest.raises(ValueError, match=f"^zero_on_hit {zero_on_hit!r}: must be true or false$"):
        step(covering(0.0), FAR, zero_on_hit)
    with pytest.raises(ValueError, match=f"^zero_on_hit {zero_on_hit!r}: must be true or false$"):
        Recording.from_json(Recording(covering(0.0), (None,)).to_json() | {"zero_on_hit": zero_on_hit})


def test_no_step_formats_its_state(monkeypatch):
    monkeypatch.setattr(State, "__repr__", lambda state: pytest.fail("it takes longer than the physics"))
    assert step(covering(0.0), FAR).state.ended is None


def test_a_placement_out_of_range_is_clipped():
    assert step(covering(0.0), Placement(SMALL_SLOT, -99.0, 99.0)).state.scene.pose[-1, 0] == pytest.approx(-7.5, abs=0.1)


# What is earned


def test_reward_falls_when_a_block_slides_off():
    state = connecting((1.25, 1.3), (3.0, 3.0), (3.0, 3.0))
    results = play(state, Placement(SMALL_SLOT, 0.0, 0.36), Placement(MEDIUM_SLOT, 0.3, 1.07), Placement(SMALL_SLOT, 1.2, 1.78))
    assert [result.reward for result in results] == [0.0, 1.0, -1.0]
    assert results[-1].state.total == 0.0
    assert results[-1].state.ended is None


@pytest.mark.parametrize(("state", "cost"), [(silhouette((3.0, 0), (3.0, 1), (3.0, 2)), 0.5), (connecting(*[(3.0, 3.0)] * 3), 0.0),
                                             (covering(0.0), 2.0), (covering(0.0, task="covering_hard"), 0.5)])  # fmt: skip
def test_each_sticky_block_costs_what_the_task_says_once(state, cost):
    placements = [Placement(0, -6.5, 0.36, True), Placement(1, -5.5, 0.36, True), Placement(2, -4.5, 0.36, False)]
    rewards = [result.reward for result in play(state, *placements)]
    assert rewards == [-cost, -cost, 0.0]


def test_the_total_is_the_score_without_the_cost_of_glue():
    for task in TASKS.values():
        for seed in range(10):
            state = played(task.name, "all", seed)[-1]
            if state.ended in ("complete", "max_steps"):
                potential = task.score(state.scene) - task.sticky_cost * np.count_nonzero(state.scene.sticky)
                assert state.total == pytest.approx(potential, abs=1e-9)


@pytest.mark.parametrize("zero_on_hit", [False, True])
def test_hitting_an_obstacle_keeps_what_was_earned_unless_it_is_forfeited(zero_on_hit):
    earned = play(connecting((0.0, 0.35), (3.0, 3.0), (3.0, 3.0)), Placement(SMALL_SLOT, 0.0, 0.36))[0].state
    assert earned.total == 1.0
    result = step(earned, Placement(SMALL_SLOT, 5.0, 2.0), zero_on_hit=zero_on_hit)
    assert result.state.ended == "obstacle_hit"
    assert (result.reward, result.state.total) == ((-1.0, 0.0) if zero_on_hit else (0.0, 1.0))


def test_a_spawn_that_overlaps_an_obstacle_is_forfeited_too_and_one_that_overlaps_a_block_is_not():
    earned = play(connecting((0.0, 0.35), (3.0, 3.0), (3.0, 3.0)), Placement(SMALL_SLOT, 0.0, 0.36))[0].state
    for x, reward in ((5.0, -1.0), (0.0, 0.0)):
        result = step(earned, Placement(SMALL_SLOT, x, 0.4), zero_on_hit=True)
        assert (result.state.ended, result.reward) == ("spawn_collision", reward)
    for placement in (None, Placement(SMALL_SLOT, 0.0, 0.0)):
        assert step(earned, placement, zero_on_hit=True).reward == 0.0


@pytest.mark.parametrize("task", ["covering", "covering_hard"])
def test_a_forfeited_return_is_exactly_zero_whatever_was_summed_before(task):
    found = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        state, rewards = start(task, "hardest", rng), []
        while not state.ended:
            result = step(state, LegalAgent().act([state], [rng])[0], zero_on_hit=True)
            state = result.state
            rewards.append(result.reward)
        total = 0.0
        for reward in rewards:
            total += reward
        assert total == state.total
        if state.ended == "obstacle_hit":
            assert total == 0.0
            assert str(rewards[-1]) != "-0.0"
            found += any(reward not in (0.0, -0.5, -2.0) for reward in rewards)
    assert found >= 3  # episodes that had earned a length before they lost it


# States are values


@pytest.mark.parametrize("task", TASKS)
def test_states_can_be_copied_compared_pickled_and_written_to_json(task):
    for state in played(task, "hardest", 1):
        for again in (
            copy.deepcopy(state),
            copy.copy(state),
            pickle.loads(pickle.dumps(state)),
            State.from_json(json.loads(json.dumps(state.to_json(), allow_nan=False))),
        ):
            assert again == state
            assert hash(again) == hash(state)


def test_stepping_from_a_stored_state_goes_on_as_if_nothing_had_happened():
    middle = played("connecting", "hardest", 4, careful=True)[6]
    assert len(middle.scene.glue)
    restored = State.from_json(json.loads(json.dumps(middle.to_json())))
    for placement in (FAR, Placement(LARGE_SLOT, 0.0, 9.0, True), None):
        assert step(restored, placement).state == step(middle, placement).state
        assert step(middle, placement).state == step(middle, placement).state


def test_a_generalisation_level_survives_json_and_a_level_given_as_numpy_does_too():
    for level in ("double_the_targets", np.int64(3)):
        state = start("silhouette", level, np.random.default_rng(0))
        assert State.from_json(json.loads(json.dumps(state.to_json()))) == state


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("task", "tower", "no task 'tower'"),
        ("task", None, "no task"),
        ("level", 99, "no level 99"),
        ("level", "2", "'level' is '2'"),
        ("level", True, "'level' is True"),
        ("level", None, "'level' is None"),
        ("level", [1], r"'level' is \[1\]"),
        ("steps", -1, "'steps' is -1"),
        ("steps", 1.5, r"'steps' is 1\.5"),
        ("total", "1", "'total' is '1'"),
        ("total", float("nan"), "'total' is nan"),
        ("total", 10**400, "'total' is 1000"),
        ("ended", "tired", "'ended' is 'tired'"),
        ("ended", ["complete"], "'ended' is"),
        ("scene", [], "a scene is an object"),
    ],
)
def test_json_that_is_no_state_is_refused_by_the_name_of_the_field(field, value, message):
    with pytest.raises(ValueError, match=message):
        State.from_json(covering(0.0).to_json() | {field: value})


def test_json_without_a_field_or_that_is_no_object_is_no_state():
    with pytest.raises(ValueError, match="not str"):
        State.from_json("state")
    data = covering(0.0).to_json()
    del data["steps"]
    with pytest.raises(ValueError, match="'steps'"):
        State.from_json(data)


# Recordings


def recorded(task: str, seed: int, zero_on_hit: bool) -> tuple[Recording, list[State], list[float]]:
    """An episode of random legal actions, with its states and rewards as they were."""
    rng = np.random.default_rng(seed)
    states, rewards, placements = [start(task, "hardest", rng)], [], []
    while not states[-1].ended:
        placements.append(LegalAgent().act(states[-1:], [rng])[0])
        result = step(states[-1], placements[-1], zero_on_hit)
        states.append(result.state)
        rewards.append(result.reward)
    return Recording(states[0], tuple(placements), zero_on_hit), states, rewards


@pytest.mark.parametrize("task", TASKS)
def test_a_recorded_episode_replays_byte_for_byte(task):
    for seed in range(5):
        recording, states, rewards = recorded(task, seed, zero_on_hit=seed % 2 == 0)
        again = Recording.from_json(json.loads(json.dumps(recording.to_json(), allow_nan=False)))
        assert again == recording
        steps = list(again.replay(record=True))
        assert [result.state.scene.tobytes() for result in steps] == [state.scene.tobytes() for state in states[1:]]
        assert [result.state for result in steps] == states[1:]
        assert [result.reward for result in steps] == rewards
        assert all(result.settled.frames is not None for result in steps if result.settled)


def test_a_recorded_episode_replays_byte_for_byte_in_another_process(tmp_path):
    expected = []
    path = tmp_path / "episodes.json"
    recordings = []
    for task in TASKS:
        for seed in range(3):
            recording, states, rewards = recorded(task, seed, zero_on_hit=True)
            recordings.append(recording.to_json())
            expected.append(digest(*(state.scene.tobytes() for state in states[1:]), repr((states[-1].total, rewards)).encode()))
    path.write_text(json.dumps(recordings))
    code = """
import hashlib, json, sys
from trilith.world.episode import Recording
for data in json.load(open(sys.argv[1])):
    steps = list(Recording.from_json(data).replay())
    text = repr((steps[-1].state.total, [step.reward for step in steps]))
    print(hashlib.sha256(b"".join(step.state.scene.tobytes() for step in steps) + text.encode()).hexdigest())
"""
    assert in_another_process(code, str(path)) == expected


@pytest.mark.parametrize(("last", "reason"), [(None, "stopped"), (INVALID_EDGE, "invalid_edge")])
def test_a_recording_of_numpy_numbers_and_of_what_is_no_placement_can_be_written(last, reason):
    recording = Recording(covering(0.0), (Placement(np.int64(0), np.float64(-6.0), np.float32(0.375), np.bool_(True)), last))
    again = Recording.from_json(json.loads(json.dumps(recording.to_json())))
    assert again.placements == (Placement(0, -6.0, 0.375, True), last)
    assert [result.state.ended for result in again.replay()] == [None, reason]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([0, 1.0, 2.0], "must be"),
        ("0123", "must be"),
        ([7, 0.0, 1.0, False], "slot must be 0 to 6"),
        ([-1, 0.0, 1.0, False], "slot"),
        ([True, 0.0, 1.0, False], "slot"),
        ([0.5, 0.0, 1.0, False], "slot"),
        ([0, float("nan"), 1.0, False], "nan"),
        ([0, 0.0, float("inf"), False], "inf"),
        ([0, "1", 1.0, False], "finite numbers"),
        ([0, 10**400, 1.0, False], "finite numbers"),
        ([0, 0.0, 1.0, 1], "true or false"),
    ],
)
def test_json_that_is_no_placement_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        checked_placement(data)


@pytest.mark.parametrize("data", [[], {}, {"start": {}}, {"placements": []}, {"start": {}, "placements": {}}])
def test_json_that_is_no_recording_is_refused(data):
    with pytest.raises(ValueError, match="an episode is an object"):
        Recording.from_json(data)


def test_a_recording_names_its_physics_and_an_older_one_says_so():
    recording = Recording(covering(0.0), (None,))
    data = recording.to_json()
    assert Recording.from_json(data).note() == ""
    del data["physics"]
    assert Recording.from_json(data).physics == 1
    assert "version 1 of the physics" in Recording.from_json(data).note()
    with pytest.raises(ValueError, match="physics 'x'"):
        Recording.from_json(data | {"physics": "x"})


def test_a_recording_may_say_who_built_it():
    recording = Recording(covering(0.0), (None,), by="Script")
    assert Recording.from_json(json.loads(json.dumps(recording.to_json()))) == recording
    assert "by" not in replace(recording, by="").to_json()
    for by in (3, "x" * 81, "two\nlines"):
        with pytest.raises(ValueError, match="by: must be a name of at most 80 letters"):
            Recording.from_json(recording.to_json() | {"by": by})
