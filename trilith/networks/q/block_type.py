"""Q-networks that merge available blocks of one width into a kind: `objects` and `pixel_attention`."""

from __future__ import annotations

from torch import Tensor

from trilith.networks.config import Mask
from trilith.networks.inference.attention import check_attention, kind_mask
from trilith.networks.inputs.scene_batch import ReplaySchema, SceneBatch
from trilith.networks.q.base import QNet


class BlockTypeQNetwork(QNet):
    """Values of placing a kind of block by an object, (B, 3, R, outputs). It has no edges between other objects, so it does not support the
    mask `none`."""

    by_kind = True

    def __init__(self, schema: ReplaySchema, mask: Mask) -> None:
        super().__init__(schema, mask)
        check_attention(schema, mask)

    def mask(self, batch: SceneBatch) -> Tensor:
        return batch.send(kind_mask(batch, self.mask_rule, self.outputs))
