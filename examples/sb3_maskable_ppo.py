"""Maskable PPO of Stable-Baselines3 learns to fill a target of Silhouette: pip install sb3-contrib, then python sb3_maskable_ppo.py.

Writes the mean reward of 200 episodes as it learns to sb3_maskable_ppo.csv.
"""

import sys
from pathlib import Path

import gymnasium
import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from stable_baselines3.common.env_util import make_vec_env

import trilith  # noqa: F401  (registers the environments)
from trilith.envs.flat import FlatActions


def make() -> gymnasium.Env:
    """Scenes of one target; what is seen of all objects as one row of numbers of about 1."""
    env = gymnasium.make("trilith/Silhouette-v0", observation="objects", level=0)
    env = gymnasium.wrappers.FlattenObservation(FlatActions(env))
    space = gymnasium.spaces.Box(-4, 4, env.observation_space.shape)
    return gymnasium.wrappers.TransformObservation(env, lambda seen: np.clip(seen / 4, -4, 4), space)


torch.set_num_threads(1)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
learning, testing = make_vec_env(make, 8, seed=0), make_vec_env(make, 8, seed=1)
model = MaskablePPO("MlpPolicy", learning, n_steps=64, batch_size=128, learning_rate=1e-3, device="cpu", seed=0)
lines = ["steps,reward"]
while len(lines) == 1 or model.num_timesteps < steps:
    if len(lines) > 1:
        model.learn(min(steps, 2_048), reset_num_timesteps=False)
    reward = evaluate_policy(model, testing, n_eval_episodes=200)[0]
    print(f"after {model.num_timesteps} steps: mean reward {reward:.2f}")
    lines.append(f"{model.num_timesteps},{reward:.3f}")
Path("sb3_maskable_ppo.csv").write_text("\n".join(lines) + "\n")
