"""Networks of Q-values in the form that learns: values of all actions, values of given ones, and which may be chosen."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trilith.networks.config import Mask, NetConfig
from trilith.networks.inputs.scene_batch import KIND_OF_SLOT, SLOTS_OF_KIND, Floats32, Records, ReplaySchema, SceneBatch
from trilith.networks.parameters import load_parameters, parameters_of
from trilith.networks.q.function import QFunction
from trilith.world.scene import Bools

DEFAULT = NetConfig()
"""The sizes of networks, unless given."""


class Outcomes(NamedTuple):
    """Predictions of a network for some actions."""

    q: Tensor
    """(m,): their values."""
    reward: Tensor | None = None
    """(m,): the reward of each alone, if it has a head for it."""
    end: Tensor | None = None
    """(m,): the log-odds that the episode ends with it, if it has a head for that."""
    state: Tensor | None = None
    """(B,): the values of the scenes themselves, if it has a head for these."""


class QNet(nn.Module, QFunction):
    """A Q-function that learns: of a batch of scenes one dense tensor (B, S, M, outputs), see `QFunction`."""

    def __init__(self, schema: ReplaySchema, mask: Mask) -> None:
        super().__init__()
        QFunction.__init__(self, schema, mask)
        self.kind_of_slot = nn.Buffer(torch.from_numpy(KIND_OF_SLOT), persistent=False)

    @property
    def device(self) -> torch.device:
        """Where it is, and batches for it have to be."""
        return self.kind_of_slot.device

    def weights(self) -> dict[str, Floats32]:
        return parameters_of(self)

    def load(self, weights: Mapping[str, NDArray[Any]]) -> None:
        load_parameters(self, weights)

    def values(self, records: Records) -> tuple[Floats32, Bools]:
        with torch.no_grad():
            batch = self.schema.unpack(records, device=self.device)
            return self.q(batch).cpu().numpy(), self.mask(batch).cpu().numpy()

    def state_values(self, records: Records) -> Floats32:
        with torch.no_grad():
            return self.v(self.schema.scenes.unpack(records, device=self.device)).cpu().numpy()

    @abstractmethod
    def q(self, batch: SceneBatch) -> Tensor:
        """(B, S, M, outputs): the value of every action; a value where `mask` is False means nothing."""

    @abstractmethod
    def q_at(self, batch: SceneBatch, index: Tensor, scenes: Tensor | None = None) -> Tensor:
        """(m,): the values of actions by their index (m,), in scenes (m,) of the batch, without the work for all others; None: one in
        each."""

    def outcomes(self, batch: SceneBatch, index: Tensor, scenes: Tensor | None = None) -> Outcomes:
        """`q_at`, and all else that the network predicts of these actions."""
        return Outcomes(self.q_at(batch, index, scenes))

    def v(self, batch: SceneBatch) -> Tensor:
        """(B,): the values of the scenes themselves, if it `values_states`. These need no mask of legal actions."""
        raise NotImplementedError

    @abstractmethod
    def mask(self, batch: SceneBatch) -> Tensor:
        """(B, S, M, outputs) bool: which actions may be chosen."""

    def place(self, index: Tensor, receivers: int) -> Tensor:
        """(B,): where actions by index (B,) are among the values of their scenes, flattened; there are so many `receivers`."""
        sender, node, _, _ = self.schema.parts(index)
        if self.by_kind:
            sender = self.kind_of_slot[sender]
        return (sender * receivers + node - self.first_receiver) * self.outputs + index % self.outputs

    def best(self, batch: SceneBatch, without: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The index (B,) of the action of the highest value in each scene, and that value (B,), -inf where there is none to choose.

        The action of each scene whose index is `without` (B,) is left out, if that is given.
        """
        values = self.q(batch).masked_fill(~self.mask(batch), -torch.inf)
        receivers, values = values.shape[2], values.flatten(1)
        if without is not None:
            values = values.scatter(1, self.place(without, receivers)[:, None], -torch.inf)
        value, place = values.max(dim=1)
        edge, output = place // self.outputs, place % self.outputs
        sender = edge // receivers
        if self.by_kind:
            sender = (batch.send(SLOTS_OF_KIND)[sender] & batch.tensors.available).to(torch.uint8).argmax(dim=1)
        return self.schema.edge(sender, edge % receivers + self.first_receiver) * self.outputs + output, value
