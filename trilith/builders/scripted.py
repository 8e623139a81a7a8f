"""The agent `scripted`: rules of thumb, one set a task, no simulation and nothing random."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import trilith.builders.connecting as connecting
import trilith.builders.covering as covering
import trilith.builders.covering_hard as covering_hard
import trilith.builders.silhouette as silhouette
from trilith.world.episode import State
from trilith.world.scene import Placement, Scene

SCRIPTS: dict[str, Callable[[Scene], Placement | None]] = {
    "silhouette": silhouette.script,
    "connecting": connecting.script,
    "covering": covering.script,
    "covering_hard": covering_hard.script,
}
"""By the name of the task."""


class ScriptedBuilder:
    """Builds by its task's script, through the discrete relative interface."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """The script's placement in each state; None, which ends the episode, where the script sees nothing more to gain."""
        return [SCRIPTS[state.task](state.scene) for state in states]
