"""Q-networks that merge available blocks of one width into a kind: `objects` and `pixel_attention`."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from trilith.networks.config import Mask
from trilith.networks.inference.attention import check_attention, kind_mask
from trilith.networks.inputs.scene_batch import ReplaySchema, SceneBatch
from trilith.networks.q.base import QNet


class BlockTypeQNetwork(QNet):
    """Values of placing a kind of block by an object, (B, 3, R, outputs). Knows no edges between objects alone: the mask `none` is not
    for it."""

    by_kind = True

    def __init__(self, schema: ReplaySchema, mask: Mask) -> None:
        super().__init__(schema, mask)
        check_attention(schema, mask)

    @abstractmethod
    def encode(self, batch: SceneBatch) -> Tensor:
        """All that values depend on of the scenes, one row an object at least; scenes one after another."""

    @abstractmethod
    def _every(self, batch: SceneBatch, references: Tensor) -> Tensor:
        """(B, 3, R, outputs): the values of all actions, given the scenes after `encode`; 0 where the mask allows nothing."""

    @abstractmethod
    def _at(self, batch: SceneBatch, references: Tensor, index: Tensor, scenes: Tensor | None) -> Tensor:
        """(m,): the values of actions by index (m,) in scenes (m,) of the batch; None: one in each."""

    def q(self, batch: SceneBatch) -> Tensor:
        return self._every(batch, self.encode(batch))

    def q_at(self, batch: SceneBatch, index: Tensor, scenes: Tensor | None = None) -> Tensor:
        return self._at(batch, self.encode(batch), index, scenes)

    def mask(self, batch: SceneBatch) -> Tensor:
        return batch.send(kind_mask(batch, self.mask_rule, self.outputs))
