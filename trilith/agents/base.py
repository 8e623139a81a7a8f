"""What an agent is.

An agent gets states and returns placements, for many episodes side by side, so that a network can answer them in one
batch. Each episode brings its own random generator: what happens in one never depends on which others run beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from trilith.world.episode import State
from trilith.world.scene import Placement


class Agent(Protocol):
    """Anything that builds."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """A placement for each state (None: an invalid edge), drawing only from the generator of its episode."""
        ...
