"""Environments with plain spaces, for libraries that support nothing else: an action is one integer, an observation one row of numbers."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from trilith.envs.gymnasium import ConstructionEnv
from trilith.world.scene import SLOTS


class FlatActions(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose action is one integer: the flat index of (block, reference, offset, sticky). Sticky varies fastest.

    The block is given by its slot, 0 to 6, because available blocks are always in these rows. `action_masks()` and
    `info["action_mask"]` say which integers are legal.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        inner = env.unwrapped
        if not isinstance(inner, ConstructionEnv) or not isinstance(inner.action_space, spaces.MultiDiscrete):
            raise ValueError(f"actions of {env} cannot be counted through: it takes a trilith environment with discrete actions")
        self.inner = inner
        self.sizes = (SLOTS, *(int(size) for size in inner.action_space.nvec[1:]))
        """Number of values of each part of an action."""
        self.action_space = spaces.Discrete(int(np.prod(self.sizes)))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """As the inner environment."""
        seen, info = self.env.reset(seed=seed, options=options)
        return seen, {**info, "action_mask": self.action_masks()}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """As the inner environment."""
        seen, reward, terminated, truncated, info = self.env.step(self.action(action))
        return seen, reward, terminated, truncated, {**info, "action_mask": self.action_masks()}

    def action(self, action: Any) -> NDArray[np.int64]:
        """The parts of an action, from its integer."""
        return np.array(np.unravel_index(int(action), self.sizes))

    def action_masks(self) -> NDArray[np.bool_]:
        """(actions,): which actions are legal. All True if no action is legal."""
        return self.inner.legal_actions()[:SLOTS].reshape(-1)


def flat_env(task: str, **arguments: Any) -> FlatActions:
    """A task with a `Box` observation and a `Discrete` action, registered as `trilith/<Title>Flat-v0`.

    The observation is the `objects` observation, flattened: all objects, the mask of real rows, and contact and glue of every pair.
    `arguments` are those of `ConstructionEnv`, except `observation`.
    """
    return FlatActions(gymnasium.wrappers.FlattenObservation(ConstructionEnv(task, observation="objects", **arguments)))
