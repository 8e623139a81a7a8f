"""States for tests of networks: the beginnings, middles and ends of random legal episodes."""

import numpy as np

from trilith.agents.chance import LegalAgent
from trilith.world.episode import State, start, step


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
