"""Environments with plain spaces, for libraries that support nothing else: an action is one integer, an observation is one vector."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from trilith.envs.gymnasium import ConstructionEnv
from trilith.world.scene import SLOTS


class FlatActions(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose action is one integer. The integers number all combinations of the parts of a discrete action; the last part,
    sticky, varies fastest. With discrete relative actions the parts are block, reference, offset and sticky.

    The block is given by its slot, from 0 to 6. A slot is also the row of its block in the scene. `action_masks()` and
    `info["action_mask"]` say which integers are legal. The constructor raises ValueError if `env` is no trilith environment with discrete
    actions.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        inner = env.unwrapped
        if not isinstance(inner, ConstructionEnv) or not isinstance(inner.action_space, spaces.MultiDiscrete):
            raise ValueError(f"actions of {env} cannot be numbered: FlatActions needs a trilith environment with discrete actions")
        self.inner = inner
        self.sizes = (SLOTS, *(int(size) for size in inner.action_space.nvec[1:]))
        """Number of values of each part of an action."""
        self.action_space = spaces.Discrete(int(np.prod(self.sizes)))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the inner environment, and adds the mask of legal actions to its info."""
        seen, info = self.env.reset(seed=seed, options=options)
        return seen, {**info, "action_mask": self.action_masks()}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Makes a step of the inner environment, and adds the mask of legal actions to its info."""
        seen, reward, terminated, truncated, info = self.env.step(self.action(action))
        return seen, reward, terminated, truncated, {**info, "action_mask": self.action_masks()}

    def action(self, action: Any) -> NDArray[np.int64]:
        """Converts the integer of an action to its parts. With discrete relative actions they are block, reference, offset and sticky."""
        return np.array(np.unravel_index(int(action), self.sizes))

    def action_masks(self) -> NDArray[np.bool_]:
        """Boolean mask of the legal actions: entry i says whether the action i is legal. All True if no action is legal."""
        return self.inner.legal_actions()[:SLOTS].reshape(-1)


def flat_env(task: str, **arguments: Any) -> FlatActions:
    """Makes the environment of a task with a `Box` observation space and a `Discrete` action space. It is registered as
    `trilith/<Title>Flat-v0`.

    The observation is `objects` of `ConstructionEnv` as one vector: all objects, the mask of real rows, and for every pair of objects
    whether they touch and whether they are glued. `arguments` are those of `ConstructionEnv`, except `observation`.
    """
    return FlatActions(gymnasium.wrappers.FlattenObservation(ConstructionEnv(task, observation="objects", **arguments)))
