"""A second algorithm, small enough to read: linear preferences over a few features of a continuous placement.

It shows that an algorithm is a folder: nothing of the run, the actors, the checkpoint, the evaluation or the card knows it.
The policy draws a few continuous absolute actions and takes the one of the highest predicted reward; the learner fits that
prediction by least squares on what was earned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trilith.agents.base import Algorithm, Decision, Episode, Recipe, Weights
from trilith.agents.replay import Replay
from trilith.world.actions import ContinuousAbsolute
from trilith.world.episode import State
from trilith.world.scene import Placement

FEATURES = 6
CODEC = ContinuousAbsolute()


@dataclass(frozen=True)
class ToyConfig:
    """All that the toy depends on."""

    candidates: int = 16
    """Actions that are compared in a state."""
    rate: float = 0.02
    """Step size."""
    batch: int = 32
    """Steps of the memory that a learner step looks at."""
    noise: float = 0.3
    """Share of random actions."""


def features(state: State, action: NDArray[Any]) -> NDArray[np.float32]:
    """(6,): what a placement looks like: where it is, how far from the nearest obstacle or target, sticky or not."""
    pick, x, y, sticky = action.tolist()
    there = np.array([7.5 * x, 7.5 * (y + 1)])
    others = state.scene.pose[8:, :2]
    near = np.abs(others - there).sum(axis=1).min() if len(others) else 0.0
    return np.array([1.0, pick, abs(x), y, np.exp(-near), float(sticky > 0)], np.float32)


class ToyPolicy:
    """Takes the candidate of the highest predicted reward."""

    dtype = np.dtype([("state", "f4", (FEATURES,)), ("action", "f4", (4,))])
    wants_states = False

    def __init__(self, config: ToyConfig, task: str, *, beyond: bool = True, zero_on_hit: bool = False, device: str = "cpu") -> None:
        self.config, self.linear = config, np.zeros(FEATURES, np.float32)

    @property
    def agent(self) -> "ToyPolicy":
        return ToyPolicy.greedy(self)

    def greedy(self) -> "ToyPolicy":
        other = _Greedy(self.config, "")
        other.linear = self.linear
        return other

    def weights(self) -> Weights:
        return {"linear": self.linear.copy()}

    def load(self, weights: Mapping[str, NDArray[Any]]) -> None:
        if set(weights) != {"linear"} or weights["linear"].shape != (FEATURES,):
            raise ValueError("not the weights of a toy")
        self.linear = np.array(weights["linear"], np.float32)

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator], exploration: Any) -> list[Any]:
        found = []
        for state, rng in zip(states, rngs, strict=True):
            actions = rng.uniform(-1, 1, (self.config.candidates, 4)).astype(np.float32)
            seen = np.array([features(state, action) for action in actions])
            best = int(np.argmax(seen @ self.linear)) if rng.random() >= (exploration or 0.0) else 0
            found.append(self._decision(state, actions[best], seen[best]))
        return found

    def encode(self, state: State, placement: Placement) -> Decision:
        raise NotImplementedError("the toy is never corrected")

    def _decision(self, state: State, action: NDArray[Any], seen: NDArray[Any]) -> Decision:
        [step] = np.zeros(1, self.dtype)
        step["state"], step["action"] = seen, action
        return Decision(CODEC.decode(state.scene, action.tolist()), step)


class _Greedy(ToyPolicy):
    """The same as an agent: placements, no exploring."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator], exploration: Any = None) -> list[Any]:
        return [decision.placement for decision in super().act(states, rngs, None)]


class ToyLearner:
    """Least squares by gradient steps on what single placements earned."""

    def __init__(self, config: ToyConfig, task: str, seed: int, device: str = "cpu") -> None:
        self.config, self.policy, self.steps = config, ToyPolicy(config, task), 0
        self.memory = Replay(self.policy.dtype, 0.1)

    def updates_due(self) -> float:
        return self.memory.added / 10 - self.steps

    def warmup_status(self) -> str:
        return ""

    def exploration(self) -> float:
        return self.config.noise

    def add(self, episode: Episode) -> None:
        self.memory.add(episode)

    def step(self, rng: np.random.Generator) -> dict[str, float]:
        steps, _ = self.memory.windows(rng, self.config.batch, 1)
        seen, earned = steps["state"][:, 0], steps["reward"][:, 0]
        error = seen @ self.policy.linear - earned
        self.policy.linear = (self.policy.linear - self.config.rate * error @ seen / len(seen)).astype(np.float32)
        self.steps += 1
        return {"loss": float((error**2).mean())}

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return self.policy.weights() | {f"memory.{k}": v for k, v in self.memory.state().items()}, {"steps": self.steps}

    def load(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        self.policy.load({"linear": arrays["linear"]})
        self.memory.load({name: arrays[f"memory.{name}"] for name in ("ring", "added")})
        self.steps = facts["steps"]


TINY = ToyConfig()
ALGORITHM = Algorithm(
    name="toy_algorithm",
    config=ToyConfig,
    recipes=(Recipe("tiny", TINY, "a linear toy"), Recipe("bold", replace(TINY, noise=0.6), "the same, exploring more")),
    policy="toy_algorithm:ToyPolicy",
    learner="toy_algorithm:ToyLearner",
    needed=("candidates",),
)
