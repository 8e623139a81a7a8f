"""The interface between agents and Q-networks. Both the torch modules for learning and the compiled networks for acting implement it.

This module imports no learning framework.
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
    """The actions of a state that may be chosen, with their values."""

    indices: Ints
    """(A,): `ReplaySchema.index` of each of the A actions, ascending."""
    values: NDArray[Any]
    """(A,): the value of each action in `indices`."""


class QFunction(ABC):
    """A Q-function. The values of all actions of a state are an array (S, M, outputs). The axes are the S senders of edges, the M receivers
    of edges, and the actions of an edge (2 · offset + sticky).

    Which nodes are senders and receivers depends on the actions. With absolute actions, the senders are the slots, and there is one
    receiver. With relative actions and the mask `none`, all nodes are senders and receivers. With relative actions and another mask, the
    senders are the kinds of blocks if `by_kind` is True, else the slots; the receivers are the objects of the scene. The mask `legal` needs
    a schema with `stores_legal`.
    """

    values_states = False
    """Whether the network has a head for state values."""
    by_kind = False
    """Whether available blocks of equal width share their values. If so, actions name the first of these blocks."""

    def __init__(self, schema: ReplaySchema, mask: Mask, stops: bool = False) -> None:
        self.schema, self.outputs, self.stops = schema, 2 * schema.offsets, stops
        """`schema` is the format of stored states, `outputs` is the number of actions per edge, and `stops` says whether the agent ends the
        episode when all values are below 0."""
        self.mask_rule: Mask = mask
        self.first_receiver = SLOTS if schema.codec.relative and mask != "none" else 0
        """The node number of the first receiver."""

    @abstractmethod
    def values(self, records: Records) -> tuple[Floats32, Bools]:
        """Returns two arrays (B, S, M, outputs) for B records: the values of all actions, and the mask of the actions that may be chosen. S
        and M are the numbers of senders and receivers of edges. Values of actions that may not be chosen are meaningless."""

    def state_values(self, records: Records) -> Floats32:
        """Returns the values (B,) of B states. Networks without `values_states` raise NotImplementedError. `records` have the format
        `schema.scenes`, without masks of legal actions."""
        raise NotImplementedError

    @abstractmethod
    def weights(self) -> dict[str, Floats32]:
        """Returns a dictionary from the name of each parameter to a copy of its values."""

    @abstractmethod
    def load(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Loads parameters by name. Raises ValueError with a one-line message, and changes nothing, if names, shapes or types do not
        match."""

    def listed(self, records: Records) -> list[Listed]:
        """Returns, for each of the states `records`, the actions that may be chosen, and their values."""
        found = []
        for values, mask, available in zip(*self.values(records), slots_of(records), strict=True):
            sender, receiver, output = mask.nonzero()
            if self.by_kind:
                sender = (available & SLOTS_OF_KIND).argmax(axis=1)[sender]
            index = self.schema.edge(sender, receiver + self.first_receiver) * self.outputs + output
            found.append(Listed(index, values[mask]))
        return found
