"""What every network of Q-values is to an agent: values of all actions, values of given ones, and which may be chosen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trilith.networks.config import Mask
from trilith.networks.inference.attention import check_weights
from trilith.networks.inputs.scene_batch import KIND_OF_SLOT, SLOTS_OF_KIND, Floats32, Records, ReplaySchema, SceneBatch
from trilith.world.scene import SLOTS, Bools


class Outcomes(NamedTuple):
    """What a network says of some actions."""

    q: Tensor
    """(m,): their values."""
    reward: Tensor | None = None
    """(m,): the reward of each alone, if it has a head for it."""
    end: Tensor | None = None
    """(m,): the log-odds that the episode ends with it, if it has a head for that."""
    state: Tensor | None = None
    """(B,): the values of the scenes themselves, if it has a head for these."""


class QNet(nn.Module, ABC):
    """Q-values of a batch of scenes as one dense tensor (B, S, M, 2 · offsets): senders, receivers, and (offset, sticky)."""

    values_states = False
    """Whether it has a head for the values of states."""

    def __init__(self, layout: ReplaySchema, mask: Mask) -> None:
        super().__init__()
        self.layout = layout
        self.mask_rule: Mask = mask
        self.outputs = 2 * layout.offsets
        self.stops = False
        """Whether its agent ends the episode where all values are below 0."""
        self.register_buffer("kind_of_slot", torch.from_numpy(KIND_OF_SLOT), persistent=False)
        self.kind_of_slot: Tensor

    @property
    def device(self) -> torch.device:
        """Where it is, and batches for it have to be."""
        return self.kind_of_slot.device

    def weights(self) -> dict[str, Floats32]:
        """A copy of the parameters, by their names."""
        return {name: value.cpu().numpy().copy() for name, value in self.state_dict().items()}

    def load(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Takes parameters by their names. Raises ValueError in one line, and changes nothing, if they are not its own."""
        check_weights({name: tuple(value.shape) for name, value in self.state_dict().items()}, weights)
        self.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})

    def values(self, records: Records) -> tuple[Floats32, Bools]:
        """`q` and `mask` of states as arrays, for acting."""
        with torch.no_grad():
            batch = self.layout.unpack(records, device=self.device)
            return self.q(batch).cpu().numpy(), self.mask(batch).cpu().numpy()

    def state_values(self, records: Records) -> Floats32:
        """`v` of states as an array, for acting."""
        with torch.no_grad():
            return self.v(self.layout.scenes.unpack(records, device=self.device)).cpu().numpy()

    @abstractmethod
    def q(self, batch: SceneBatch) -> Tensor:
        """(B, S, M, 2 · offsets): the value of every action; what stands where `mask` is False means nothing."""

    @abstractmethod
    def q_at(self, batch: SceneBatch, actions: Tensor, scenes: Tensor | None = None) -> Tensor:
        """(m,): the values of actions (m, 4) in scenes (m,) of the batch, without the work for all others; None: one in each."""

    def outcomes(self, batch: SceneBatch, actions: Tensor, scenes: Tensor | None = None) -> Outcomes:
        """`q_at`, and what else the network says of these actions."""
        return Outcomes(self.q_at(batch, actions, scenes))

    def v(self, batch: SceneBatch) -> Tensor:
        """(B,): the values of the scenes themselves, if it `values_states`. These need no mask of legal actions."""
        raise NotImplementedError

    @abstractmethod
    def mask(self, batch: SceneBatch) -> Tensor:
        """(B, S, M, 2 · offsets) bool: which actions may be chosen."""

    @abstractmethod
    def actions(self, batch: SceneBatch, flat: Tensor) -> Tensor:
        """(B, 4): the actions of flat indices (B,) into the values of one scene."""

    @abstractmethod
    def action(self, available: Bools, sender: int, receiver: int, output: int) -> tuple[int, int, int, int]:
        """The action of one place in the values of a scene with these slots `available` (7,)."""

    @abstractmethod
    def flat(self, batch: SceneBatch, actions: Tensor) -> Tensor:
        """(B,): the flat indices of actions (B, 4), so that `actions` gives them back up to blocks of one width."""

    def best(self, batch: SceneBatch) -> tuple[Tensor, Tensor]:
        """The action (B, 4) of the highest value in each scene, and that value (B,), -inf where there is none to choose."""
        values = self.q(batch).masked_fill(~self.mask(batch), -torch.inf)
        value, flat = values.flatten(1).max(dim=1)
        return self.actions(batch, flat), value


def split_output(output: Tensor) -> tuple[Tensor, Tensor]:
    """Offset and sticky of the last axis of a tensor of values."""
    return output // 2, output % 2


def first_slot(batch: SceneBatch, kind: Tensor) -> Tensor:
    """(B,): the first available slot that holds a block of a kind (B,)."""
    return (batch.send(SLOTS_OF_KIND)[kind] & batch.tensors.available).to(torch.uint8).argmax(dim=1)


def receiver_of(reference: Tensor) -> Tensor:
    """Node number of an object of the scene, from its place in the batch."""
    return reference + SLOTS
