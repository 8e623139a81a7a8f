"""The replay gives back what it was given, never mixes episodes, and stays within its bytes."""

import numpy as np
import pytest

from trilith.agents.replay import Episode, Replay
from trilith.nets.batch import Layout
from trilith.world.actions import DiscreteRelative
from trilith.world.tasks import get_task

LAYOUT = Layout.of(get_task("covering_hard"), DiscreteRelative(), True)


def episode(number: int, steps: int) -> Episode:
    """An episode whose records, actions and rewards say where they come from."""
    records = np.zeros(steps, LAYOUT.dtype)
    records["pose"][:, 0, 0] = number
    records["pose"][:, 0, 1] = np.arange(steps)
    actions = np.tile(np.arange(steps, dtype=np.int32)[:, None], (1, 4))
    tried = np.full((steps, 3, 4), -1, np.int32)
    tried[:, 0] = actions
    found = np.tile(np.arange(steps, dtype=np.float32)[:, None], (1, 3))
    rewards = 10.0 ** np.arange(steps, dtype=np.float32)
    return Episode(records, actions, rewards, tried, found, 0, 1.0)


@pytest.mark.parametrize("n_step", [1, 3, 7])
def test_samples_stay_within_their_episode(n_step: int) -> None:
    replay = Replay(LAYOUT, 0, 0.5)
    rng = np.random.default_rng(0)
    lengths = {}
    for number in range(400):  # enough to go round the ring several times
        lengths[number] = int(rng.integers(1, 8))
        replay.add(episode(number, lengths[number]))
    assert len(replay) == replay.capacity < replay.added
    sample = replay.sample(rng, 2000, n_step)
    for record, action, reward, after, discount, *_ in zip(*sample, strict=True):
        number, at = int(record["pose"][0, 0]), int(record["pose"][0, 1])
        assert action.tolist() == [at] * 4
        end = min(at + n_step, lengths[number])
        assert reward == pytest.approx(sum(0.5 ** (k - at) * 10.0**k for k in range(at, end)))
        if at + n_step < lengths[number]:
            assert discount == 0.5**n_step
            assert after["pose"][0, :2].tolist() == [number, at + n_step]
        else:
            assert discount == 0


def test_it_is_capped_in_bytes() -> None:
    replay = Replay(LAYOUT, 1.0, 0.9)
    assert 0.99e6 < replay.ring.nbytes <= 1e6


def test_it_comes_back_from_its_arrays() -> None:
    replay, other = Replay(LAYOUT, 0, 0.9), Replay(LAYOUT, 0, 0.9)
    for number in range(100):
        replay.add(episode(number, 5))
    other.load({name: array.copy() for name, array in replay.state().items()})
    first, second = (r.sample(np.random.default_rng(0), 50, 1) for r in (replay, other))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="does not fit"):
        other.load({"ring": np.zeros(7, np.uint8), "added": np.array(7)})


def test_what_was_searched_goes_with_a_step() -> None:
    replay = Replay(LAYOUT, 0, 0.5, tried=2)
    replay.add(episode(0, 3))
    sample = replay.sample(np.random.default_rng(0), 60, 1)
    step = sample.actions[:, 0]
    assert set(step.tolist()) == {0, 1, 2}
    np.testing.assert_array_equal(sample.tried[:, 0, 0], step)
    assert sample.tried.shape == (60, 2, 4)
    assert (sample.tried[:, 1] == -1).all()
    np.testing.assert_allclose(sample.found[:, 0], step)
    assert Replay(LAYOUT, 0, 0.5).dtype.itemsize < replay.dtype.itemsize
