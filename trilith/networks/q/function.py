"""The interface between agents and Q-networks, for torch modules that learn and for compiled networks that only act.

Imports no learning framework.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from trilith.networks.config import Mask
from trilith.networks.inputs.scene_batch import SLOTS_OF_KIND, Floats32, Records, ReplaySchema, slots_of
from trilith.world.scene import SLOTS, Bools, Ints


class Listed(NamedTuple):
    """The actions of a state that may be chosen."""

    indices: Ints
    """(A,): indices of the actions, ascending."""
    values: NDArray[Any]
    """(A,): the value of each of these actions."""


class QFunction(ABC):
    """Q-values of every action of a state: an array (S, M, outputs) of senders, receivers, and offset with sticky.

    With the mask `none`, senders and receivers are all nodes. Otherwise senders are kinds of blocks if `by_kind`, else slots, and
    receivers are the objects of the scene. Absolute actions have one receiver.
    """

    values_states = False
    """Whether the network has a head for state values."""
    by_kind = False
    """Whether blocks of equal width have the same value. The first available block then represents them."""

    def __init__(self, schema: ReplaySchema, mask: Mask, stops: bool = False) -> None:
        self.schema, self.outputs, self.stops = schema, 2 * schema.offsets, stops
        """`schema`: the format of stored states. `outputs`: number of actions per edge. `stops`: whether the agent ends the episode
        when all values are below 0."""
        self.mask_rule: Mask = mask
        self.first_receiver = SLOTS if schema.codec.relative and mask != "none" else 0
        """The node of the first receiver."""

    @abstractmethod
    def values(self, records: Records) -> tuple[Floats32, Bools]:
        """(B, S, M, outputs) each: the values of all actions, and the mask of actions that may be chosen."""

    def state_values(self, records: Records) -> Floats32:
        """(B,): the values of states. Only for networks with `values_states`. `records` have the format `schema.scenes`, without masks."""
        raise NotImplementedError

    @abstractmethod
    def weights(self) -> dict[str, Floats32]:
        """A copy of the parameters by name."""

    @abstractmethod
    def load(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Loads parameters by name. If names or shapes differ, raises ValueError in one line and changes nothing."""

    def listed(self, records: Records) -> list[Listed]:
        """The actions of each state that may be chosen, and their values."""
        found = []
        for values, mask, available in zip(*self.values(records), slots_of(records), strict=True):
            sender, receiver, output = mask.nonzero()
            if self.by_kind:
                sender = (available & SLOTS_OF_KIND).argmax(axis=1)[sender]
            index = self.schema.edge(sender, receiver + self.first_receiver) * self.outputs + output
            found.append(Listed(index, values[mask]))
        return found
