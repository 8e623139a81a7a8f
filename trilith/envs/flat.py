"""Discrete actions as one integer, for libraries that support nothing else, with the exact mask of all combinations."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from trilith.envs.gymnasium import ConstructionEnv
from trilith.world.scene import SLOTS


class FlatActions(gymnasium.ActionWrapper[Any, Any, Any]):
    """An environment whose action is one integer: the flat index of (block, reference, offset, sticky), the last part fastest.

    The block is its slot, 0 to 6, because only these rows are ever available blocks. `action_masks` says which integers are legal.
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

    def action(self, action: Any) -> NDArray[np.int64]:
        """The parts of an action, from its integer."""
        return np.array(np.unravel_index(int(action), self.sizes))

    def action_masks(self) -> NDArray[np.bool_]:
        """(actions,): which actions are legal. All True if no action is legal."""
        return self.inner.legal_actions()[:SLOTS].reshape(-1)
