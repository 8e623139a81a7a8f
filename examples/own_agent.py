"""An agent of your own, evaluated on the same test scenes as all others. In the folder of this file:

trilith evaluate own_agent:Flat --task covering_hard --scenes 200
"""

from collections.abc import Sequence

import numpy as np

from trilith.world.actions import DiscreteRelative
from trilith.world.episode import State
from trilith.world.scene import SLOTS, Placement


class Flat:
    """Places the widest available block at a random legal position. Every second block is sticky."""

    codec = DiscreteRelative()

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """Returns a placement for each state; None stops the episode. `rngs` has a random generator per state."""
        return [self.choose(state, rng) for state, rng in zip(states, rngs, strict=True)]

    def choose(self, state: State, rng: np.random.Generator) -> Placement | None:
        """The placement in one state; None if nothing is legal."""
        mask = self.codec.mask(state.scene)  # (7 slots, objects, offsets)
        slots = np.flatnonzero(mask.any(axis=(1, 2)))
        if not len(slots):
            return None
        slot = max(slots.tolist(), key=lambda each: float(state.scene.size[:SLOTS][each, 0]))
        places = np.argwhere(mask[slot])
        reference, offset = places[rng.integers(len(places))].tolist()
        return self.codec.decode(state.scene, (slot, reference, offset, state.steps % 2))
