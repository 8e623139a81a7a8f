"""The replay gives back what it was given, never mixes episodes, and stays within its bytes."""

from typing import Any

import numpy as np
import pytest

from trilith.agents.base import Episode
from trilith.agents.dqn.learner import Counterfactuals, Sample
from trilith.agents.replay import Replay

STATE = [("number", "i4"), ("at", "i4")]
OTHERS = 3
DTYPE = np.dtype(
    [
        ("state", STATE),
        ("action", "i4", (4,)),
        ("beside", "i4", (OTHERS, 4)),
        ("beside_reward", "f4", (OTHERS,)),
        ("beside_ended", "?", (OTHERS,)),
        ("after", STATE, (OTHERS,)),
        ("earned", "f4"),
        ("ended", "?"),
    ]
)


def episode(number: int, steps: int) -> Episode:
    """An episode whose records, actions and rewards say where they come from. Beside a step there are none to three others, of which
    every second ended it."""
    rows = np.zeros(steps, np.dtype([*DTYPE.descr, ("reward", "f4")]))
    rows["state"]["number"], rows["state"]["at"] = number, np.arange(steps)
    rows["action"] = np.arange(steps)[:, None]
    rows["reward"] = 10.0 ** np.arange(steps)
    rows["earned"] = 7.0 * np.arange(steps) + number
    rows["ended"][-1] = number % 2 == 0
    rows["beside"] = -1
    for at, row in enumerate(rows):
        for k in range((number + at) % (OTHERS + 1)):
            row["beside"][k], row["beside_reward"][k], row["beside_ended"][k] = 100 * at + k, number + at / 10 + k / 100, (at + k) % 2
            if not row["beside_ended"][k]:
                row["after"][k] = number, 1000 + 10 * at + k
    return Episode(rows, 0, False, None)


def filled() -> tuple[Replay, dict[int, int]]:
    replay, rng, lengths = Replay(DTYPE, 0), np.random.default_rng(0), dict[int, int]()
    for number in range(400):  # enough to go round the ring several times
        lengths[number] = int(rng.integers(1, 8))
        replay.add(episode(number, lengths[number]))
    assert len(replay) == replay.capacity < replay.added
    return replay, lengths


@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_windows_stay_within_their_episode(length: int) -> None:
    replay, lengths = filled()
    steps, count = replay.windows(np.random.default_rng(1), 2000, length)
    assert steps.shape == (2000, length)
    for window, real in zip(steps, count, strict=True):
        number, at = window["state"][0].tolist()
        assert real == min(length, lengths[number] - at)
        for k in range(real):
            assert window["state"][k].tolist() == (number, at + k)
            assert window["left"][k] == lengths[number] - at - k


@pytest.mark.parametrize("n_step", [1, 3, 7])
def test_transitions_over_n_steps_sum_what_was_earned_and_bootstrap_from_what_follows(n_step: int) -> None:
    replay, lengths = filled()
    sample = Sample.of(*replay.windows(np.random.default_rng(1), 2000, n_step + 1), 0.5)
    for i, record in enumerate(sample.records):
        number, at = record.tolist()
        assert sample.actions[i].tolist() == [at] * 4
        assert sample.rewards[i] == 10.0**at
        end = min(at + n_step, lengths[number])
        assert sample.returns[i] == pytest.approx(sum(0.5 ** (k - at) * 10.0**k for k in range(at, end)))
        if at + n_step < lengths[number]:
            assert sample.discounts[i] == 0.5**n_step
            assert sample.following[i].tolist() == (number, at + n_step)
        else:
            assert sample.discounts[i] == 0
        assert sample.ended[i] == (at == lengths[number] - 1 and number % 2 == 0), "every second was not ended by its last step"
        assert sample.earned[i] == 7.0 * at + number


def test_counterfactual_actions_are_those_of_a_plain_loop() -> None:
    replay, _ = filled()
    steps, count = replay.windows(np.random.default_rng(1), 500, 2)
    found = Sample.of(steps, count, 0.5).beside
    assert found is not None
    expected: list[tuple[int, list[int], float, bool]] = []
    after = []
    for scene, row in enumerate(steps[:, 0]):
        for k in range(OTHERS):
            if row["beside"][k, 0] < 0:
                continue
            if not row["beside_ended"][k]:
                after.append(row["after"][k].tolist())
            expected.append((scene, row["beside"][k].tolist(), float(row["beside_reward"][k]), bool(row["beside_ended"][k])))
    assert len(expected) > 500
    columns = (found.scenes.tolist(), found.actions.tolist(), found.rewards.tolist(), found.ended.tolist())
    assert list(zip(*columns, strict=True)) == expected
    assert found.after is not None
    assert found.after.tolist() == after
    assert 100 < len(after) == (~found.ended).sum()
    names = [name for name in DTYPE.names or () if name != "after"]
    without = Counterfactuals.of(steps[:, 0][names])
    assert without.after is None, "a network that values no states keeps none"
    for one, other in zip(without[:4], found[:4], strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("most", [0, 1, 2, OTHERS])
def test_at_most_so_many_counterfactual_actions_of_a_state_that_do_not_end_the_episode_have_targets(most: int) -> None:
    replay, _ = filled()
    steps, count = replay.windows(np.random.default_rng(1), 500, 2)
    every = Sample.of(steps, count, 0.5).beside
    assert every is not None
    assert every.after is not None
    assert every.valued.tolist() == list(range(len(every.ended)))
    found = every.with_targets(most, np.random.default_rng(2))
    assert found.after is not None
    chosen = [k for k in found.valued.tolist() if not found.ended[k]]
    assert [k for k in found.valued.tolist() if found.ended[k]] == np.flatnonzero(found.ended).tolist(), "the end is known"
    going = np.flatnonzero(~every.ended).tolist()
    assert found.after.tolist() == [every.after[going.index(k)].tolist() for k in chosen]
    for scene in range(len(steps)):
        mine = [k for k in going if every.scenes[k] == scene]
        assert len(set(mine) & set(chosen)) == min(most, len(mine))
    if most == 1:
        again = every.with_targets(most, np.random.default_rng(3))
        assert again.valued.tolist() != found.valued.tolist(), "drawn anew each time"
    if most == OTHERS:
        assert found.valued.tolist() == every.valued.tolist()


def test_where_nothing_was_simulated_beside_there_is_nothing_to_find() -> None:
    steps = np.zeros(4, DTYPE)
    steps["beside"] = -1
    assert [None if each is None else len(each) for each in Counterfactuals.of(steps)] == [0] * 6
    plain = Replay(np.dtype([each for each in DTYPE.descr if each[0] in ("state", "action", "earned", "ended")]), 0)
    whole = episode(3, 5)
    plain.add(whole._replace(steps=whole.steps[["state", "action", "earned", "ended", "reward"]]))
    assert not len(Sample.of(*plain.windows(np.random.default_rng(0), 4, 2), 0.5).beside.scenes)


def test_an_episode_of_more_steps_than_a_byte_counts_is_refused() -> None:
    replay, one = Replay(DTYPE, 1), episode(1, 1)
    replay.add(one._replace(steps=one.steps.repeat(255)))
    with pytest.raises(ValueError, match="an episode of 256 steps: agents and models learn from episodes of at most 255"):
        replay.add(one._replace(steps=one.steps.repeat(256)))
    assert replay.added == 255


def test_it_is_capped_in_bytes() -> None:
    assert 0.99e6 < Replay(DTYPE, 1.0).ring.nbytes <= 1e6


def test_it_comes_back_from_its_arrays() -> None:
    replay, other = filled()[0], Replay(DTYPE, 0)
    state: dict[str, Any] = replay.state()
    other.load({name: array.copy() for name, array in state.items()})
    (first, _), (second, _) = (r.windows(np.random.default_rng(0), 50, 2) for r in (replay, other))
    assert first.tobytes() == second.tobytes()
    for damaged in (
        {"ring": np.zeros(7, np.uint8), "added": np.array(7)},
        state | {"added": np.array(3)},
        state | {"added": np.array(0.5)},
    ):
        with pytest.raises(ValueError, match=r"does not fit|cannot have had"):
            Replay(DTYPE, 0).load(damaged)
