"""The agent `scripted`: one set of rules of thumb per task, without simulation or randomness."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trilith.planners.registry import script_for
from trilith.world.episode import State
from trilith.world.scene import Placement


class ScriptedBuilder:
    """An agent that follows the script of each task, with discrete relative actions."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """The placement that the script chooses in each state. None means stop: nothing more can be gained. Raises ValueError if a task
        has no script."""
        return [script_for(state.task)(state.scene) for state in states]
