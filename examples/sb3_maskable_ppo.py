"""Maskable PPO of Stable-Baselines3 learns Connecting with one obstacle, its level 2: pip install sb3-contrib, then
python sb3_maskable_ppo.py [steps] [seed].

Writes a learning curve to sb3_maskable_ppo_SEED.csv: the mean reward of 200 episodes after every 4,096 steps.
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

SCALE = np.array([8, 8, 1, 1, 4, 4, 8, 8, 8, *[1] * 6], dtype=np.float32)  # an object's place, angle, size, velocity, flags: about 1 each


def make() -> gymnasium.Env:
    """The environment. An observation is one vector with 15 numbers per object. An action is one number; there are 7 offsets, not 15."""
    env = FlatActions(gymnasium.make("trilith/Connecting-v0", observation="objects", level=2, offsets=7))
    space = gymnasium.spaces.Box(-4, 4, (env.inner.max_objects * len(SCALE),))
    return gymnasium.wrappers.TransformObservation(env, lambda seen: np.clip(seen["objects"] / SCALE, -4, 4).reshape(-1), space)


torch.set_num_threads(1)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 61_440
seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
learning, testing = make_vec_env(make, 8, seed=1000 * seed), make_vec_env(make, 8, seed=1000 * seed + 500)
options = {"n_steps": 128, "batch_size": 256, "n_epochs": 5, "learning_rate": 1e-3, "ent_coef": 0.01, "gamma": 1.0}
model = MaskablePPO("MlpPolicy", learning, **options, policy_kwargs={"net_arch": [256, 256]}, device="cpu", seed=seed)
lines = ["steps,reward"]
while len(lines) == 1 or model.num_timesteps < steps:
    if len(lines) > 1:
        model.learn(min(steps, 4096), reset_num_timesteps=False)
    reward = evaluate_policy(model, testing, n_eval_episodes=200)[0]
    print(f"after {model.num_timesteps} steps: mean reward {reward:.2f}", flush=True)
    lines.append(f"{model.num_timesteps},{reward:.3f}")
Path(f"sb3_maskable_ppo_{seed}.csv").write_text("\n".join(lines) + "\n")
