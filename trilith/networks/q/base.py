"""Base classes of Q-networks as torch modules, for learning. The networks compute the values of all actions or of given actions, and the
mask of the actions that may be chosen."""

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
    """(m,): the values of the actions."""
    reward: Tensor | None = None
    """(m,): the immediate reward of each action, if the network has a head for it."""
    end: Tensor | None = None
    """(m,): the log-odds that the episode ends with each action, if the network has a head for it."""
    state: Tensor | None = None
    """(B,): the values of the scenes, if the network has a head for state values."""


class QNet(nn.Module, QFunction):
    """A Q-function that can be trained. The values of all actions in a batch of B scenes are one tensor (B, S, M, outputs), see
    `QFunction`."""

    def __init__(self, schema: ReplaySchema, mask: Mask) -> None:
        super().__init__()
        QFunction.__init__(self, schema, mask)
        self.kind_of_slot = nn.Buffer(torch.from_numpy(KIND_OF_SLOT), persistent=False)

    @property
    def device(self) -> torch.device:
        """The device of the network. Its batches must be on the same device."""
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
        """The values (B, S, M, outputs) of all actions. Values where `mask` is False are meaningless."""

    @abstractmethod
    def q_at(self, batch: SceneBatch, index: Tensor, scenes: Tensor | None = None) -> Tensor:
        """The values (m,) of given actions: action `index[i]` in scene `scenes[i]` of the batch. Values of other actions are not computed.
        If `scenes` is None, there is one action per scene, in order."""

    def outcomes(self, batch: SceneBatch, index: Tensor, scenes: Tensor | None = None) -> Outcomes:
        """The values of given actions, as in `q_at`, and the other predictions of the network for these actions."""
        return Outcomes(self.q_at(batch, index, scenes))

    def v(self, batch: SceneBatch) -> Tensor:
        """The state values (B,) of the scenes. Only networks with `values_states` have state values. The batch needs no mask of legal
        actions."""
        raise NotImplementedError

    @abstractmethod
    def mask(self, batch: SceneBatch) -> Tensor:
        """Boolean mask (B, S, M, outputs) of the actions that may be chosen."""

    def place(self, index: Tensor, receivers: int) -> Tensor:
        """Converts action indices (B,) to positions (B,) in the flattened values (S · M · outputs) of a scene. `receivers` is M."""
        sender, node, _, _ = self.schema.parts(index)
        if self.by_kind:
            sender = self.kind_of_slot[sender]
        return (sender * receivers + node - self.first_receiver) * self.outputs + index % self.outputs

    def best(self, batch: SceneBatch, without: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Finds the action with the highest value in each scene. Returns the indices (B,) and the values (B,) of these actions. If no
        action may be chosen in a scene, its value is -inf and its index is meaningless.

        `without` (B,), if given, excludes one action in each scene, given by its index.
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
    """Base class of the networks `objects` and `pixel-attention`. The values (B, 3, R, outputs) belong to placing each of three kinds of
    block at each of R objects.

    Available blocks of equal width are one kind. The mask `none` is not supported, because no values are computed for edges that do not
    start at an available block.
    """

    by_kind = True

    def __init__(self, schema: ReplaySchema, mask: Mask) -> None:
        super().__init__(schema, mask)
        check_attention(schema, mask)

    def mask(self, batch: SceneBatch) -> Tensor:
        return batch.send(kind_mask(batch, self.mask_rule, self.outputs))
