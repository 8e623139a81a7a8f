"""Discrete actions as one whole number, for libraries that know no other: with the exact mask of all combinations."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from trilith.envs.gymnasium import ConstructionEnv
from trilith.world.scene import SLOTS


class FlatActions(gymnasium.ActionWrapper[Any, Any, Any]):
    """An environment whose action is one number: block, reference, offset and sticky counted through, the last fastest.

    The block is its slot, 0 to 6, since no other row is ever a block to place. `action_masks` says which numbers are legal.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        inner = env.unwrapped
        if not isinstance(inner, ConstructionEnv) or not isinstance(inner.action_space, spaces.MultiDiscrete):
            raise ValueError(f"actions of {env} cannot be counted through: it takes a trilith environment with discrete actions")
        self.inner = inner
        self.sizes = (SLOTS, *(int(size) for size in inner.action_space.nvec[1:]))
        """Of the parts of an action."""
        self.action_space = spaces.Discrete(int(np.prod(self.sizes)))

    def action(self, action: Any) -> NDArray[np.int64]:
        """The parts of a number."""
        return np.array(np.unravel_index(int(action), self.sizes))

    def action_masks(self) -> NDArray[np.bool_]:
        """(actions,): which are legal; all where none is."""
        return self.inner.legal_actions()[:SLOTS].reshape(-1)
