"""An algorithm of your own: Q-learning with a linear function. In the folder of this file:

trilith train --recipe own_algorithm:linear --task silhouette --actors 0 --steps 2000 --out /tmp/linear
trilith evaluate /tmp/linear --task silhouette --scenes 200
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trilith import Placement, Role, State
from trilith.agents.base import Algorithm, Decision, Episode, Recipe, Weights
from trilith.agents.replay import Replay
from trilith.world.actions import DiscreteRelative

CODEC = DiscreteRelative()
KINDS = (len(Role), 2, 8)
"""Kinds of placements: role of the reference object, whether it is as wide as the block, distance of the offset from the middle one."""
FEATURES = int(np.prod(KINDS)) + 3


@dataclass(frozen=True)
class LinearConfig:
    """The options of the algorithm, also on the command line, as --agent.epsilon 0.1."""

    learning_rate: float = 0.3
    discount: float = 0.5
    epsilon: float = 0.2
    batch: int = 64


def legal_actions(state: State) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """The legal actions (A, 4): block, reference object, offset, sticky (0 or 1); and their features (A, FEATURES)."""
    scene, edges = state.scene, np.argwhere(CODEC.mask(state.scene))
    actions = np.concatenate([np.insert(edges, 3, sticky, axis=1) for sticky in (0, 1)])
    block, on, offset, sticky = actions.T
    fits = (np.abs(scene.size[block, 0] - scene.size[on, 0]) < 1e-3).astype(int)
    features = np.zeros((len(actions), FEATURES), np.float32)
    features[range(len(actions)), np.ravel_multi_index((scene.role[on], fits, np.abs(offset - 7)), KINDS)] = 1
    features[:, -3], features[:, -2], features[:, -1] = sticky, scene.pose[on, 1] / 5, (state.max_steps - state.steps) / 8
    return actions, features


class LinearPolicy:
    """Takes the action with the highest value Q = w · features or, with probability `exploration`, a random legal one."""

    dtype = np.dtype([("state", "f4", FEATURES), ("action", "f4", FEATURES)])  # features of the best action, and of the one taken
    wants_states = False

    def __init__(self, config: LinearConfig, task: str, **_: Any) -> None:
        self.w, self.agent = np.zeros(FEATURES, np.float32), LinearAgent(self)

    def weights(self) -> Weights:
        return {"w": self.w.copy()}

    def load(self, weights: Any) -> None:
        self.w = np.array(weights["w"], np.float32)

    def act(self, states: Any, rngs: Any, exploration: float) -> list[Decision]:
        return [self.decide(state, rng, exploration) for state, rng in zip(states, rngs, strict=True)]

    def decide(self, state: State, rng: np.random.Generator, exploration: float) -> Decision:
        actions, features = legal_actions(state)
        if not len(actions):
            return Decision(None, None)
        best = int(np.argmax(features @ self.w))
        taken = int(rng.integers(len(actions))) if rng.random() < exploration else best
        [record] = np.array([(features[best], features[taken])], self.dtype)
        return Decision(CODEC.decode(state.scene, actions[taken].tolist()), record)


class LinearAgent:
    """The policy without exploration."""

    def __init__(self, policy: LinearPolicy) -> None:
        self.policy = policy

    def act(self, states: Any, rngs: Any) -> list[Placement | None]:
        return [decision.placement for decision in self.policy.act(states, rngs, 0.0)]


class LinearLearner:
    """Moves Q(s, a) towards r + discount · Q(s', a'), for a batch of steps from the replay. a' was the best action when s' was played."""

    def __init__(self, config: LinearConfig, task: str, seed: int, device: str) -> None:
        self.config, self.policy, self.steps = config, LinearPolicy(config, task), 0
        self.replay = Replay(self.policy.dtype, megabytes=50)

    def updates_due(self) -> float:
        return self.replay.added / 4 - self.steps  # a learner step for every four placements

    def warmup_status(self) -> str:
        return ""

    def exploration(self) -> float:
        return self.config.epsilon

    def add(self, episode: Episode) -> None:
        self.replay.add(episode)

    def step(self, rng: np.random.Generator) -> dict[str, float]:
        pairs, real = self.replay.windows(rng, self.config.batch, 2)
        now, after = pairs[:, 0], pairs[:, 1]
        target = now["reward"] + self.config.discount * np.where(real == 2, after["state"] @ self.policy.w, 0)
        error = target - now["action"] @ self.policy.w
        self.policy.w += self.config.learning_rate * error @ now["action"] / len(error)
        self.steps += 1
        return {"loss": float((error**2).mean())}

    def state(self) -> tuple[Weights, dict[str, Any]]:
        return self.policy.weights() | self.replay.state(), {"steps": self.steps}

    def load(self, arrays: Any, facts: Any) -> None:
        self.policy.load(arrays)
        self.replay.load(arrays)
        self.steps = facts["steps"]


LINEAR = Recipe("linear", LinearConfig(), "Q-learning with a linear function of a placement", run={"curriculum": {"steps": 1000}})
POLICY, LEARNER = f"{__name__}:LinearPolicy", f"{__name__}:LinearLearner"
ALGORITHM = Algorithm(__name__, LinearConfig, (LINEAR,), POLICY, LEARNER, needed=())
