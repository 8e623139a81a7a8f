"""The paper's RNN (§C.1): a GRU reads the objects of a scene in order of appearance, padding included."""

from __future__ import annotations

from torch import Tensor, nn

from trilith.networks.inputs.object_rows import ROW_FEATURES, rows
from trilith.networks.inputs.scene_batch import SceneBatch


class RNNEncoder(nn.Module):
    """The hidden state of the GRU after the last row of the padded list."""

    def __init__(self, length: int, width: int = 256) -> None:
        super().__init__()
        self.length = length
        self.gru = nn.GRU(ROW_FEATURES, width, batch_first=True)

    def forward(self, batch: SceneBatch) -> Tensor:
        """(B, width)"""
        return self.gru(rows(batch, self.length))[1][0]
