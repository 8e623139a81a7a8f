"""Arbitrary actions in every space: nothing raises, everything stays finite, and the books balance."""

import json

import numpy as np
import pytest

from trilith.world.actions import CODECS, make_codec
from trilith.world.episode import REASONS, State, start, step
from trilith.world.scene import Role
from trilith.world.tasks import TASKS

EPISODES = 80
"""For each task and space, so 1600 in all."""


def any_action(codec, objects: int, rng: np.random.Generator):
    """An action of a space, with no thought of what it does; continuous ones may leave their range."""
    space = codec.space(objects)
    return np.array(space.sample(rng)) * (1 if space.whole else 1.2)


def likely_action(codec, scene, rng: np.random.Generator):
    """An action that is not an invalid edge, so that blocks pile up."""
    action = any_action(codec, len(scene), rng)
    if codec.mask(scene) is not None:
        action[0] = rng.choice(scene.rows(Role.AVAILABLE))
        action[1] = rng.choice(np.flatnonzero(scene.role != Role.AVAILABLE))
    return action


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("space", CODECS)
def test_arbitrary_actions_do_no_harm(name, space):
    task = TASKS[name]
    rng = np.random.default_rng(list(f"{name} {space}".encode()))
    codec = make_codec(space, heights=task.grid[0], widths=task.grid[1])
    levels = (*task.levels, *task.generalisation)
    built = 0
    for _ in range(EPISODES):
        level = levels[rng.integers(len(levels))]
        zero_on_hit = bool(rng.integers(2))
        state, total = start(task, level, rng), 0.0
        objects = task.max_objects(level)
        while not state.ended:
            action = any_action(codec, objects, rng) if rng.random() < 0.1 else likely_action(codec, state.scene, rng)
            result = step(state, codec.decode(state.scene, action), zero_on_hit)
            state, scene = result.state, result.state.scene
            total += result.reward
            built += result.settled is not None
            assert np.isfinite(result.reward)
            assert np.isfinite(scene.pose).all()
            assert np.isfinite(scene.velocity).all()
            assert np.isfinite(scene.glue_frame).all()
            assert np.isfinite(task.score(scene))
            assert len(scene) <= objects
            assert state.steps <= state.max_steps
        assert state.ended in REASONS
        assert state.ended != "bad_simulation"
        assert total == state.total <= task.best(state.scene) + 1e-9
        assert State.from_json(json.loads(json.dumps(state.to_json(), allow_nan=False))) == state
    assert built > 3
