"""Agents that act at random. They are the baseline of comparisons, and list the actions for a search without a network ("raw search")."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trilith.search.tree import Prior
from trilith.world.actions import DiscreteRelative, first_of_width
from trilith.world.episode import State
from trilith.world.scene import Placement


class RandomAgent:
    """The agent `random`, which draws uniformly from all discrete relative actions. Most of these actions are invalid edges, or their block
    would overlap something."""

    codec = DiscreteRelative()
    discount = 0.99
    """Discount factor of a search that uses this agent (a raw search)."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """Returns the placement of a uniformly random action for each state."""
        pairs = zip([state.scene for state in states], rngs, strict=True)
        return [self.codec.decode(scene, self.codec.space(len(scene)).sample(rng)) for scene, rng in pairs]

    def priors(self, states: Sequence[State]) -> list[Prior]:
        """Lists, for each state, the actions on all edges between two different objects. Each action has the value 0. The paper's raw
        search uses this list. Most of the actions end the episode."""
        found = []
        for state in states:
            n, per_edge = len(state.scene), 2 * self.codec.offsets
            edges = np.flatnonzero(~np.eye(n, dtype=bool))
            ids = (edges[:, None] * per_edge + np.arange(per_edge)).ravel()
            found.append(Prior(np.zeros(len(ids)), np.repeat(edges, per_edge), ids))
        return found

    def decode(self, state: State, action_id: int) -> Placement:
        """Converts an action id from `priors` to a placement."""
        return _decode(self.codec, state, action_id)


class LegalAgent:
    """The agent `legal`, which draws uniformly from the legal actions, those that `DiscreteRelative.mask` allows. On average half of its
    actions are sticky."""

    codec = DiscreteRelative()
    discount = 0.99
    """Discount factor of a search that uses this agent (a raw search)."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """Returns the placement of a uniformly random legal action for each state. None, which means stop, if there is no legal action."""
        return [self._choose(state, rng) for state, rng in zip(states, rngs, strict=True)]

    def _choose(self, state: State, rng: np.random.Generator) -> Placement | None:
        mask = self.codec.mask(state.scene)
        choices = np.flatnonzero(mask)
        if not len(choices):
            return None
        c, r, i = np.unravel_index(choices[rng.integers(len(choices))], mask.shape)
        return self.codec.decode(state.scene, (int(c), int(r), int(i), int(rng.integers(2))))

    def priors(self, states: Sequence[State]) -> list[Prior]:
        """Lists the legal actions of each state, each with the value 0, for a raw search. Of several available blocks of equal width only
        the first is listed."""
        found = []
        for state in states:
            mask = self.codec.mask(state.scene)
            mask[~first_of_width(state.scene)] = False
            ids = (2 * np.flatnonzero(mask)[:, None] + np.arange(2)).ravel()
            found.append(Prior(np.zeros(len(ids)), ids // (2 * self.codec.offsets), ids))
        return found

    def decode(self, state: State, action_id: int) -> Placement:
        """Converts an action id from `priors` to a placement."""
        return _decode(self.codec, state, action_id)


def _decode(codec: DiscreteRelative, state: State, action_id: int) -> Placement:
    """Converts an action id to a placement. The id is 2 · (`codec.offsets` · edge + offset) + sticky. In a scene of N rows, the edge is N ·
    (row of the block) + (row of the object)."""
    rest, sticky = divmod(action_id, 2)
    edge, offset = divmod(rest, codec.offsets)
    return codec.decode(state.scene, (*divmod(edge, len(state.scene)), offset, sticky))
