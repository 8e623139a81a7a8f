"""Environments as other people's libraries meet them."""

import pickle
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest

from trilith.envs.flat import FlatActions
from trilith.world.tasks import TASKS

IDS = {name: f"trilith/{task.title.replace(' ', '')}-v0" for name, task in TASKS.items()}
DISCRETE = ["discrete_relative", "discrete_relative_xy", "discrete_absolute"]


def playing(action_space: str, seed: int = 0) -> gymnasium.Env:
    env = gymnasium.make(IDS["connecting"], action_space=action_space, level=1)
    env.reset(seed=seed)
    return env


@pytest.mark.parametrize("action_space", [*DISCRETE, "continuous_absolute"])
@pytest.mark.parametrize("observation", ["graph", "padded_graph", "objects", "image", "image_uint8", "segments"])
def test_an_environment_can_be_pickled_in_the_middle_of_an_episode(action_space: str, observation: str) -> None:
    env = gymnasium.make(IDS["covering"], action_space=action_space, observation=observation)
    env.reset(seed=3)
    copy = pickle.loads(pickle.dumps(env))
    action = env.action_space.sample()
    assert env.step(action)[1:4] == copy.step(action)[1:4]
    assert env.unwrapped.state == copy.unwrapped.state
    assert env.reset()[1].keys() == copy.reset()[1].keys()
    assert env.unwrapped.state == copy.unwrapped.state, "its generator too"


@pytest.mark.parametrize("action_space", DISCRETE)
def test_masks_of_parts_are_the_margins_of_what_is_legal(action_space: str) -> None:
    env = playing(action_space).unwrapped
    masks = np.split(env.action_masks(), np.cumsum(env.action_space.nvec)[:-1])
    assert [len(mask) for mask in masks] == env.action_space.nvec.tolist()
    if action_space == "discrete_absolute":
        assert masks[0].tolist() == (env.state.scene.role[:7] == 0).tolist()
    else:
        legal = env._info()["legal"]
        assert masks[0].tolist() == [*legal.any(axis=tuple(range(1, legal.ndim))), *[False] * (len(masks[0]) - 7)]
        assert masks[1].tolist() == legal.any(axis=(0, *range(2, legal.ndim))).tolist()
        assert not masks[1].all()
    assert masks[-1].all()


def test_continuous_actions_have_no_mask() -> None:
    with pytest.raises(ValueError, match="continuous actions have no mask: choose a discrete action_space"):
        playing("continuous_relative").unwrapped.action_masks()


@pytest.mark.parametrize("action_space", ["discrete_relative", "discrete_relative_xy"])
def test_every_flat_action_is_an_action_and_its_mask_is_exact(action_space: str) -> None:
    env, other = FlatActions(playing(action_space)), playing(action_space)
    rng = np.random.default_rng(0)
    for _ in range(6):
        mask = env.action_masks()
        assert mask.shape == (env.action_space.n,)
        legal = env.unwrapped._info()["legal"]
        assert mask.sum() == 2 * legal.sum() > 0, "each of them sticky or not"
        action = rng.choice(np.flatnonzero(mask))
        parts = env.action(action)
        assert legal[tuple(parts[:-1])]
        _, reward, ended, _, info = env.step(action)
        assert (reward, ended) == other.step(parts)[1:3]
        assert info["reason"] not in ("invalid_edge", "spawn_collision")
        if ended:
            break


def test_only_discrete_environments_are_counted_through() -> None:
    with pytest.raises(ValueError, match="FlatActions needs a trilith environment with discrete actions"):
        FlatActions(playing("continuous_absolute"))
    with pytest.raises(ValueError, match="FlatActions needs a trilith environment"):
        FlatActions(gymnasium.make("CartPole-v1"))


def test_the_image_of_whole_numbers_is_the_image() -> None:
    seen = {}
    for observation in ("image", "image_uint8"):
        env = gymnasium.make(IDS["silhouette"], observation=observation)
        seen[observation] = env.reset(seed=0)[0]
        assert seen[observation] in env.observation_space
    floats, whole = seen["image"], seen["image_uint8"].astype(np.float64) / 255
    assert seen["image_uint8"].dtype == np.uint8
    np.testing.assert_allclose(whole[..., :3], floats[..., :3], atol=0.5 / 255 + 1e-6)
    np.testing.assert_allclose(2 * whole[..., 3:] - 1, floats[..., 3:], atol=1 / 255 + 1e-6)


@pytest.mark.parametrize("observation", ["objects", "image_uint8"])
def test_stable_baselines_finds_nothing_wrong(observation: str) -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker", reason="Stable-Baselines3 is not installed (extra sb3)")
    env: gymnasium.Env[Any, Any] = FlatActions(gymnasium.make(IDS["silhouette"], observation=observation, level=0))
    if observation == "objects":
        env = gymnasium.wrappers.FlattenObservation(env)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checker.check_env(env)


def test_maskable_ppo_asks_for_legal_actions_only() -> None:
    contrib = pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed (extra sb3)")
    env = gymnasium.wrappers.FlattenObservation(FlatActions(gymnasium.make(IDS["silhouette"], observation="objects", level=0)))
    model = contrib.MaskablePPO("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, device="cpu", seed=0)
    model.learn(16)
    seen, _ = env.reset(seed=1)
    for seed in range(20):
        action, _ = model.predict(seen, action_masks=env.unwrapped.legal_actions()[:7].reshape(-1))
        *_, info = env.step(action)
        assert info["reason"] not in ("invalid_edge", "spawn_collision")
        seen, _ = env.reset(seed=seed)


FLAT = [f"{name[:-3]}Flat-v0" for name in IDS.values()]


@pytest.mark.parametrize("name", FLAT)
def test_a_flat_task_has_plain_spaces_and_an_exact_mask(name: str) -> None:
    env = gymnasium.make(name)
    assert isinstance(env.observation_space, gymnasium.spaces.Box)
    assert isinstance(env.action_space, gymnasium.spaces.Discrete)
    seen, info = env.reset(seed=0)
    assert seen in env.observation_space
    rng = np.random.default_rng(0)
    ended = False
    while not ended:
        seen, _, ended, _, info = env.step(rng.choice(np.flatnonzero(info["action_mask"])))
        assert seen in env.observation_space
    assert info["reason"] not in ("invalid_edge", "spawn_collision", "bad_choice")


def test_ppo_of_stable_baselines_learns_a_flat_task_by_its_name() -> None:
    library = pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed (extra sb3)")
    assert library.PPO("MlpPolicy", FLAT[-1], n_steps=16, batch_size=16, n_epochs=1, device="cpu", seed=0).learn(16).num_timesteps == 16


def test_torchrl_finds_nothing_wrong_with_a_flat_task() -> None:
    envs = pytest.importorskip("torchrl.envs", reason="TorchRL is not installed")
    env = envs.GymEnv(FLAT[-1])
    envs.utils.check_env_specs(env)
    assert env.rollout(3)["observation"].shape[-1] == gymnasium.make(FLAT[-1]).observation_space.shape[0]


def test_default_ppo_of_rllib_learns_a_flat_task_by_its_name() -> None:
    ppo = pytest.importorskip("ray.rllib.algorithms.ppo", reason="RLlib is not installed")
    config = ppo.PPOConfig().environment(f"trilith:{FLAT[-1]}").env_runners(num_env_runners=0)
    algorithm = config.training(train_batch_size=32, minibatch_size=16, num_epochs=1).build_algo()
    try:
        assert algorithm.train()["env_runners"]["num_env_steps_sampled"] >= 32
    finally:
        algorithm.stop()
