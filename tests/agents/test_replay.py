"""The replay gives back what it was given, never mixes episodes, and stays within its bytes."""

from typing import Any

import numpy as np
import pytest

from trilith.agents.base import Episode
from trilith.agents.dqn.learner import Sample
from trilith.agents.replay import Replay

DTYPE = np.dtype([("state", [("number", "i4"), ("at", "i4")]), ("action", "i4", (4,)), ("tried", "i4", (2, 4)), ("found", "f4", (2,))])


def episode(number: int, steps: int) -> Episode:
    """An episode whose records, actions and rewards say where they come from."""
    rows = np.zeros(steps, np.dtype([*DTYPE.descr, ("reward", "f4")]))
    rows["state"]["number"], rows["state"]["at"] = number, np.arange(steps)
    rows["action"] = np.arange(steps)[:, None]
    rows["tried"][:, 0], rows["tried"][:, 1] = rows["action"], -1
    rows["found"] = np.arange(steps)[:, None]
    rows["reward"] = 10.0 ** np.arange(steps)
    return Episode(rows, 0, 1.0, False, None)


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
    for record, action, reward, after, discount, *_ in zip(*sample, strict=True):
        number, at = record.tolist()
        assert action.tolist() == [at] * 4
        end = min(at + n_step, lengths[number])
        assert reward == pytest.approx(sum(0.5 ** (k - at) * 10.0**k for k in range(at, end)))
        if at + n_step < lengths[number]:
            assert discount == 0.5**n_step
            assert after.tolist() == (number, at + n_step)
        else:
            assert discount == 0
    np.testing.assert_array_equal(sample.tried[:, 0, 0], sample.actions[:, 0])
    assert (sample.tried[:, 1] == -1).all()
    np.testing.assert_allclose(sample.found[:, 0], sample.actions[:, 0])


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
