"""The agent `scripted`: one set of rules of thumb per task, without simulation or randomness."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trilith.planners.registry import script_for
from trilith.world.episode import State
from trilith.world.scene import Placement


class ScriptedBuilder:
    """Builds by the script of its task, with discrete relative actions."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """The script's placement in each state; None (stop) if nothing more can be gained."""
        return [script_for(state.task)(state.scene) for state in states]
