"""Base classes of Q-networks as torch modules, for learning. The networks compute the values of all actions or of given actions. They also
compute the mask of the actions that may be chosen."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trilith.networks.config import Mask, NetConfig
from trilith.networks.inference.attention import check_attention, kind_mask
from trilith.networks.inputs.scene_batch import KIND_OF_SLOT, SLOTS_OF_KIND, Floats32, Records, ReplaySchema, SceneBatch
from trilith.networks.parameters import load_parameters, parameters_of
from trilith.networks.q.function import QFunction
from trilith.world.scene import Bools

DEFAULT = NetConfig()
"""The default sizes of networks."""


class Outcomes(NamedTuple):
    """Predictions of a network for m actions in B scenes."""

    q: Tensor
    """(m,): the value of each action."""
    reward: Tensor | None = None
    """(m,): the predicted immediate reward of each action; None if the network has no head for it."""
    end: Tensor | None = None
    """(m,): the log-odds that each action ends the episode; None if the network has no head for it."""
    state: Tensor | None = None
    """(B,): the value of each scene; None if the network has no head for state values."""


class QNet(nn.Module, QFunction):
    """A Q-function that can be trained. The values of all actions in a batch of B scenes are one tensor (B, S, M, outputs): for each scene,
    S senders of edges, M receivers of edges, and the actions of an edge (see `QFunction`)."""

    def __init__(self, schema: ReplaySchema, mask: Mask) -> None:
        super().__init__()
        QFunction.__init__(self, schema, mask)
        self.kind_of_slot = nn.Buffer(torch.from_numpy(KIND_OF_SLOT), persistent=False)

    @property
    def device(self) -> torch.device:
        """The device of the network. The batches that it reads must be on this device too."""
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
        """The values (B, S, M, outputs) of all actions in B scenes: for S senders and M receivers of edges (see `QFunction`). Values where
        `mask` is False are meaningless."""

    @abstractmethod
    def q_at(self, batch: SceneBatch, index: Tensor, scenes: Tensor | None = None) -> Tensor:
        """The values (m,) of m given actions: action `index[i]` in scene `scenes[i]` of the batch. Values of other actions are not
        computed. If `scenes` is None, action i belongs to scene i."""

    def outcomes(self, batch: SceneBatch, index: Tensor, scenes: Tensor | None = None) -> Outcomes:
        """Returns the values of given actions, and the other predictions of the network for these actions and for the scenes. The arguments
        are as in `q_at`."""
        return Outcomes(self.q_at(batch, index, scenes))

    def v(self, batch: SceneBatch) -> Tensor:
        """Returns the state values (B,) of the B scenes of a batch. Networks without `values_states` raise NotImplementedError. The batch
        needs no mask of legal actions."""
        raise NotImplementedError

    @abstractmethod
    def mask(self, batch: SceneBatch) -> Tensor:
        """Boolean mask of the actions that may be chosen. It has the same shape (B, S, M, outputs) as the values of `q`."""

    def place(self, index: Tensor, receivers: int) -> Tensor:
        """Converts the indices (B,) of one action in each of B scenes to positions (B,) in the flattened values of the scene. These values
        have the shape (S, M, outputs) for S senders and M receivers of edges; `receivers` is M."""
        sender, node, _, _ = self.schema.parts(index)
        if self.by_kind:
            sender = self.kind_of_slot[sender]
        return (sender * receivers + node - self.first_receiver) * self.outputs + index % self.outputs

    def best(self, batch: SceneBatch, without: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Finds the action with the highest value in each of B scenes, among those that may be chosen. Returns the indices (B,) and the
        values (B,) of these actions. If no action may be chosen in a scene, its value is -inf and its index is meaningless.

        If `without` (B,) is given, the action with the index `without[i]` is excluded in scene i.
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


class BlockTypeQNetwork(QNet):
    """Base class of the networks `objects` and `pixel-attention`. The values have the shape (B, 3, R, outputs): in each of B scenes, for
    placing each of three kinds of block at each of up to R objects.

    Available blocks of equal width are one kind. The mask `none` and absolute actions raise ValueError, because values are computed only
    for edges that start at an available block.
    """

    by_kind = True

    def __init__(self, schema: ReplaySchema, mask: Mask) -> None:
        super().__init__(schema, mask)
        check_attention(schema, mask)

    def mask(self, batch: SceneBatch) -> Tensor:
        return batch.send(kind_mask(batch, self.mask_rule, self.outputs))
