"""Random legal actions in the Gymnasium environment of Connecting: prints the return of each episode, and why it ended."""

import gymnasium as gym
import numpy as np

env = gym.make("trilith:trilith/Connecting-v0", level=1)
rng = np.random.default_rng(0)
for episode in range(5):
    observation, info = env.reset(seed=episode)
    total, ended = 0.0, False
    while not ended:
        legal = np.argwhere(info["legal"])
        block, reference, offset = legal[rng.integers(len(legal))]
        observation, reward, ended, _, info = env.step(np.array([block, reference, offset, 0]))
        total += float(reward)
    print(f"episode {episode}: return {total:.2f}, ended by {info['reason']}")
