"""States for tests of networks: the beginnings, middles and ends of random legal episodes, and scenes that no episode leads to."""

from collections.abc import Sequence

import numpy as np
from worlds import with_blocks

from trilith.agents.dqn.policy import choose
from trilith.agents.random_agents import LegalAgent
from trilith.networks.inputs.scene_batch import Records
from trilith.networks.q.function import QFunction
from trilith.world.episode import State, start, step
from trilith.world.scene import SLOTS, Bools, Scene, fresh_scene


def states(task: str, count: int, seed: int = 0, level: str = "all") -> list[State]:
    """States of random episodes in which nothing ends early, so that there are blocks, contacts and glue in them."""
    rng = np.random.default_rng(seed)
    agent = LegalAgent()
    found: list[State] = []
    while len(found) < count:
        state = start(task, level, rng)
        found.append(state)
        for _ in range(40):
            placement = agent.act([state], [rng])[0]
            if placement is None:
                break
            after = step(state, placement).state
            if not after.ended:
                state = after
                found.append(state)
    order = rng.permutation(len(found))[:count]
    return [found[i] for i in order]


def as_states(scenes: list[Scene]) -> list[State]:
    """States of some task with these scenes."""
    return [State(scene, "covering_hard", 0) for scene in scenes]


def odd_scenes() -> list[Scene]:
    """Objects across every border of the picture, in its corners, wholly out of it, upright and at any angle, and over each other."""
    places = [(-8, 13), (8, 13), (8, -3), (-8, -3), (-9, 5), (0, 14), (30, 5), (0, 0.4), (0.3, 0.8), (5, -40)]
    angles = [0.0, 1.0, 0.3, 2.0]
    scene = fresh_scene([(-7.9, 12.8, 2.1, 0.7), (0.1, 0.35, 0.7, 0.7)], [(7.9, 6.0, 3.0, 0.35)])
    return [with_blocks(scene, [(i % SLOTS, x, y, angle) for i, (x, y) in enumerate(places)]) for angle in angles]


def choices(net: QFunction, records: Records, random: Bools, rngs: Sequence[np.random.Generator]) -> list[np.ndarray | None]:
    """The edge action (4,) that an agent chooses in each state, at random or not."""
    indices = [choose(*each) for each in zip(net.listed(records), random, rngs, strict=True)]
    return [None if index is None else net.schema.actions(index) for index in indices]
