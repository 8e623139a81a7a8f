"""The Gymnasium environments: contract tests over every id, action space and observation, and that they add no rules of their own."""

from __future__ import annotations

import copy
import itertools
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode

import trilith
from trilith.envs.gymnasium import OBSERVATIONS, ConstructionEnv
from trilith.world.actions import CODECS
from trilith.world.episode import REASONS, start, step
from trilith.world.scene import FLOOR, SLOTS, Role
from trilith.world.tasks import TASKS

ROOT = Path(trilith.__file__).parents[1]
IDS = {task.name: f"trilith/{task.title.replace(' ', '')}-v0" for task in TASKS.values()}
RELATIVE = ("discrete_relative", "discrete_relative_xy")


def make(task: str, **options: Any) -> ConstructionEnv:
    env = gym.make(IDS[task], **options).unwrapped
    assert isinstance(env, ConstructionEnv)
    return env


def choose(mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random legal action, not sticky; zeros, an invalid edge, where there is none."""
    choices = np.argwhere(mask)
    return np.append(choices[rng.integers(len(choices))] if len(choices) else np.zeros(mask.ndim, dtype=int), 0)


def build(env: ConstructionEnv, seed: int, steps: int) -> list[tuple[Any, dict[str, Any]]]:
    """Observations and infos of random legal actions, over as many episodes as that takes."""
    rng = np.random.default_rng(seed)
    seen = [env.reset(seed=seed)]
    for _ in range(steps):
        if env.state.ended:
            seen.append(env.reset())
        else:
            observation, _, _, _, info = env.step(choose(seen[-1][1]["legal"], rng))
            seen.append((observation, info))
    return seen


def arrays(observation: Any) -> list[np.ndarray]:
    if isinstance(observation, dict):
        return list(observation.values())
    return list(observation) if isinstance(observation, tuple) else [observation]


@pytest.mark.parametrize("observation", OBSERVATIONS)
@pytest.mark.parametrize("action_space", CODECS)
@pytest.mark.parametrize("task", TASKS)
def test_gymnasium_finds_nothing_wrong(task: str, action_space: str, observation: str) -> None:
    env = make(task, action_space=action_space, observation=observation, level="hardest")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # what Gymnasium has to say about an environment
        check_env(env)


@pytest.mark.parametrize("observation", OBSERVATIONS)
@pytest.mark.parametrize("task", TASKS)
def test_observations_stay_in_their_space_and_share_no_memory(task: str, observation: str) -> None:
    env = make(task, observation=observation, level="hardest")
    seen = build(env, seed=1, steps=10)
    assert all(each in env.observation_space for each, _ in seen)
    for (first, first_info), (second, second_info) in itertools.pairwise(seen):
        assert all(a.flags.writeable for a in arrays(first))
        assert not any(np.shares_memory(a, b) for a, b in zip(arrays(first), arrays(second), strict=True))
        assert not np.shares_memory(first_info["legal"], second_info["legal"])


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_same_seed_same_observations(observation: str) -> None:
    seen = [build(make("connecting", observation=observation), seed=5, steps=6) for _ in range(2)]
    assert data_equivalence(seen[0], seen[1], exact=True)


@pytest.mark.parametrize("action_space", CODECS)
@pytest.mark.parametrize("task", TASKS)
def test_an_environment_is_start_and_step(task: str, action_space: str) -> None:
    env = make(task, action_space=action_space, observation="objects", zero_on_hit=True)
    env.action_space.seed(0)
    env.reset(seed=0)
    rng, _ = gym.utils.seeding.np_random(0)
    state = start(task, "all", rng)
    ends = set()
    for _ in range(25):
        assert env.state == state
        action = env.action_space.sample()
        _, reward, terminated, truncated, info = env.step(action)
        state, expected, _ = step(state, env.codec.decode(state.scene, action.tolist()), zero_on_hit=True)
        assert (env.state, reward, terminated, truncated) == (state, expected, state.ended is not None, False)
        assert (info["reason"], info["level"]) == (state.ended, str(state.level))
        if terminated:
            ends.add(state.ended)
            env.reset()
            state = start(task, "all", rng)
    assert ends <= set(REASONS)
    assert ends


@pytest.mark.parametrize("connectivity", ["full", "sparse"])
def test_padded_graph_is_the_graph(connectivity: str) -> None:
    env = make("covering", observation="graph", level="hardest", connectivity=connectivity)
    twin = make("covering", level="hardest", connectivity=connectivity)
    for (graph, _), (padded, _) in zip(build(env, 2, 12), build(twin, 2, 12), strict=True):
        n = len(graph.nodes)
        assert padded["node_mask"].sum() == n == padded["node_mask"][:n].sum()
        assert np.array_equal(padded["nodes"][:n], graph.nodes)
        assert not padded["nodes"][n:].any()
        assert np.array_equal(np.argwhere(padded["edge_mask"]), graph.edge_links)
        assert np.array_equal(padded["edges"][tuple(graph.edge_links.T)], graph.edges)
        assert padded["edges"].sum() == graph.edges.sum()


def test_objects_show_who_touches_and_segments_are_padded() -> None:
    env = make("covering", observation="objects", level=0)
    env.reset(seed=0)
    env.state = start("covering", 0, np.random.default_rng(0))
    free = np.argwhere(env.codec.mask(env.state.scene)[0, FLOOR])[0, 0]
    observation, *_ = env.step([0, FLOOR, free, 1])
    row = int(observation["mask"].sum()) - 1
    assert observation["objects"][row, 10 + Role.BLOCK] == 1
    assert np.array_equal(np.argwhere(observation["contact"].all(axis=-1)), [[FLOOR, row], [row, FLOOR]])  # touching and glued
    assert not observation["objects"][row + 1 :].any()

    pictures, _ = make("covering", observation="segments", level=0).reset(seed=0)
    n = int(pictures["mask"].sum())
    assert pictures["segments"][:n].any(axis=(1, 2, 3)).all()
    assert not pictures["segments"][n:].any()


@pytest.mark.parametrize("action_space", RELATIVE)
@pytest.mark.parametrize("task", TASKS)
def test_legal_actions_are_possible_and_nothing_is_legal_after_the_end(task: str, action_space: str) -> None:
    env = make(task, action_space=action_space, observation="objects", level="hardest", offsets=7)
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=3)
    for _ in range(15):
        mask = info["legal"]
        assert mask.shape == (SLOTS, env.max_objects, *env.codec.tail)  # type: ignore[union-attr]
        if env.state.ended:
            assert not mask.any()
            _, info = env.reset()
            continue
        n = len(env.state.scene)
        assert np.array_equal(mask[:, :n], env.codec.mask(env.state.scene))
        assert not mask[:, n:].any()
        _, _, _, _, info = env.step(choose(mask, rng))
        assert info["reason"] not in ("invalid_edge", "spawn_collision", "bad_choice")


def test_only_relative_actions_have_a_mask() -> None:
    for name in CODECS:
        assert ("legal" in make("covering", action_space=name).reset(seed=0)[1]) == (name in RELATIVE)


@pytest.mark.parametrize("edge", [(0, 0), (FLOOR, FLOOR), (0, 41), (41, FLOOR), (0, 99), (-1, FLOOR), (0, -1)])
def test_a_row_that_is_out_of_range_or_of_the_wrong_kind_is_an_invalid_edge(edge: tuple[int, int]) -> None:
    env = make("covering", level="hardest")
    assert env.max_objects == 42
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step([*edge, 7, 0])
    assert (reward, terminated, truncated, info["reason"]) == (0.0, True, False, "invalid_edge")


@pytest.mark.parametrize(
    ("action_space", "action", "message"),
    [
        ("continuous_absolute", [0, np.nan, 0, 0], "nan"),
        ("continuous_relative", np.array([0, 0, np.inf, 0, 0]), "inf"),
        ("continuous_absolute", [0, 0, 0], "shape"),
        ("continuous_absolute", ["a", "b", "c", "d"], "must be numbers"),
        ("discrete_absolute", [0, 8, 0, 0], "8"),
        ("discrete_relative", [0, 7, np.nan, 0], "nan"),
        ("discrete_relative", [0, 7, 1.5, 0], "1.5"),
        ("discrete_relative", [0, 7, 15, 0], "15"),
        ("discrete_relative", [0, 7, 0, 2], "2"),
        ("discrete_relative", 3, "shape"),
        ("discrete_relative_xy", [0, 7, 3, 0], "shape"),
    ],
)
def test_what_is_no_action_is_refused_and_changes_nothing(action_space: str, action: Any, message: str) -> None:
    env = make("covering", action_space=action_space)
    env.reset(seed=0)
    before = env.state
    with pytest.raises(ValueError, match=message):
        env.step(action)
    assert env.state is before


def test_acting_before_reset_or_after_the_end_says_so() -> None:
    env = make("covering")
    with pytest.raises(gym.error.ResetNeeded, match="reset"):
        env.step([0, FLOOR, 7, 0])
    env.reset(seed=0)
    env.step([0, 0, 0, 0])
    with pytest.raises(ValueError, match="ended"):
        env.step([0, FLOOR, 7, 0])


def test_a_state_can_be_kept_and_returned_to() -> None:
    env = make("silhouette", level="hardest")
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=0)
    kept, action = env.state, choose(info["legal"], rng)
    twin, other = copy.deepcopy(env), make("silhouette", level="hardest")
    other.reset(options={"state": pickle.loads(pickle.dumps(kept))})
    first = env.step(action)
    assert env.state != kept
    env.state = kept
    assert all(data_equivalence(first, each.step(action), exact=True) for each in (env, twin, other))


def test_a_state_that_does_not_belong_is_refused() -> None:
    env = make("connecting", level=3)
    env.reset(seed=0)
    before = env.state
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="covering does not belong into an environment of connecting"):
        env.state = start("covering", 0, rng)
    with pytest.raises(ValueError, match="room for 20"):
        env.state = start("connecting", "hardest", rng)
    with pytest.raises(ValueError, match="must be a trilith"):
        env.state = 3  # type: ignore[assignment]
    with pytest.raises(ValueError, match="9 does not fit"):
        env.reset(options={"level": 9})
    with pytest.raises(ValueError, match="no level 10"):
        env.reset(options={"level": 10})
    with pytest.raises(ValueError, match="reset option 'lvl': choose level, state"):
        env.reset(options={"lvl": 2})
    with pytest.raises(ValueError, match="only one"):
        env.reset(options={"level": 2, "state": before})
    assert env.state is before
    assert env.reset(options={"level": 2})[1]["level"] == "2"


@pytest.mark.parametrize("task", TASKS)
def test_every_level_fits_its_spaces_to_the_last_step(task: str) -> None:
    for level in ("all", *TASKS[task].levels, *TASKS[task].generalisation):
        env = make(task, level=level, observation="objects")
        _, info = env.reset(seed=0)
        assert level == "all" or info["level"] == str(level)
        assert env.action_space.nvec[0] == env.max_objects == TASKS[task].objects_for(level)  # type: ignore[attr-defined]
        state = env.state
        if TASKS[task].keeps_supply:
            assert len(state.scene) + state.max_steps <= env.max_objects


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"action_space": "relative"}, "action_space 'relative': choose continuous_absolute"),
        ({"observation": "text"}, "observation 'text': choose graph"),
        ({"connectivity": "none"}, "connectivity 'none': choose full, sparse, sparse-both"),
        ({"level": 3}, "covering has no level 3"),
        ({"offsets": 3}, "at least 4"),
        ({"action_space": "discrete_absolute", "grid": (0, 8)}, "at least 1"),
        ({"task": "towers"}, "no task 'towers'"),
        ({"render_mode": "human"}, "render_mode 'human': choose None, rgb_array"),
    ],
)
def test_a_wrong_argument_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ConstructionEnv(**{"task": "covering", **options})


def test_grid_and_offsets_shape_the_action_space() -> None:
    def sizes(task: str, **options: Any) -> list[int]:
        return make(task, **options).action_space.nvec.tolist()  # type: ignore[attr-defined]

    assert sizes("silhouette", action_space="discrete_absolute") == [7, 256, 256, 2]
    assert sizes("covering", action_space="discrete_absolute") == [7, 8, 64, 2]
    assert sizes("covering", action_space="discrete_absolute", grid=(4, 5)) == [7, 4, 5, 2]
    assert sizes("covering_hard", offsets=9) == [12, 12, 9, 2]
    assert sizes("covering_hard", action_space="discrete_relative_xy", offsets=5) == [12, 12, 5, 5, 2]


def test_pictures() -> None:
    env = make("silhouette", render_mode="rgb_array")
    env.reset(seed=0)
    drawn = env.render()
    assert drawn is not None
    assert (drawn.shape, drawn.dtype) == ((640, 640, 3), np.uint8)
    assert drawn.min() < 100 < 250 < drawn.max()
    blind = make("silhouette")
    blind.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode"):
        assert blind.render() is None


@pytest.mark.parametrize("observation", ["padded_graph", "objects", "image"])
def test_vector_environments_agree_and_start_again_by_themselves(observation: str) -> None:
    seen = {}
    for mode in ("sync", "async"):
        envs = gym.make_vec("trilith/CoveringHard-v0", num_envs=3, vectorization_mode=mode, observation=observation)
        rng = np.random.default_rng(0)
        observations, infos = envs.reset(seed=0)
        seen[mode] = [(observations, infos["legal"])]
        again = ended = np.zeros(3, dtype=bool)
        for _ in range(12):
            actions = np.stack([choose(mask, rng) for mask in infos["legal"]])
            observations, rewards, ended, truncated, infos = envs.step(actions)
            assert observations in envs.observation_space
            assert not truncated.any()
            assert infos["_legal"].all()
            assert not rewards[again].any()  # this step only reset them
            assert np.array_equal(infos["legal"].any(axis=(1, 2, 3)), ~ended)
            assert [reason is not None for reason in infos["reason"]] == ended.tolist()
            again = ended
            seen[mode].append((observations, infos["legal"], rewards, ended))
        envs.close()
    assert data_equivalence(seen["sync"], seen["async"], exact=True)
    assert any(step[3].any() for step in seen["sync"][1:])


def test_reset_in_the_same_step_keeps_the_last_reason() -> None:
    envs = gym.make_vec(
        "trilith/Silhouette-v0", num_envs=2, vectorization_mode="sync", observation="graph",
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
    )  # fmt: skip
    envs.reset(seed=0)
    _, _, ended, _, infos = envs.step(np.zeros((2, 4), dtype=int))
    assert ended.all()
    assert infos["final_info"]["reason"].tolist() == ["invalid_edge"] * 2
    assert infos["reason"].tolist() == [None, None]
    assert infos["legal"].any(axis=(1, 2, 3)).all()


def test_levels_of_both_kinds_mix_in_a_vector_environment() -> None:
    envs = gym.make_vec("trilith/Silhouette-v0", num_envs=2, vectorization_mode="sync", level="nine_targets", observation="objects")
    _, infos = envs.reset(seed=0, options={"level": 0})
    assert infos["level"].tolist() == ["0", "0"]
    actions = np.stack([np.zeros(4, dtype=int), choose(infos["legal"][1], np.random.default_rng(0))])
    for _ in range(2):
        _, _, _, _, infos = envs.step(actions)
    assert infos["level"][0] == "nine_targets"


def test_import_registers_the_environments_and_loads_nothing_heavy() -> None:
    code = """
import sys, trilith
heavy = {"torch", "pyb2d3", "matplotlib", "imageio", "trilith.envs.gymnasium"} & set(sys.modules)
assert not heavy, heavy
import gymnasium
for name in ("Silhouette", "Connecting", "Covering", "CoveringHard"):
    gymnasium.make(f"trilith/{name}-v0").reset(seed=0)
assert "torch" not in sys.modules and "matplotlib" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    code = "import gymnasium; print(gymnasium.make('trilith:trilith/Covering-v0').reset(seed=0)[1]['level'])"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_example_runs() -> None:
    command = [sys.executable, "examples/gymnasium_random.py"]
    done = subprocess.run(command, check=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    assert all("return" in line and any(reason in line for reason in REASONS) for line in lines)


def test_the_environments_can_be_asked_about_after_importing_trilith_alone():
    lines = "import sys, trilith; assert 'numba' not in sys.modules; print(trilith.envs.gymnasium.ConstructionEnv.__doc__)"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    assert "## Observation" in done.stdout
    with pytest.raises(AttributeError, match="has no attribute 'ray'"):
        trilith.envs.ray  # noqa: B018
