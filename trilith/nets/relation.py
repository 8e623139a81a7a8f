"""The paper's CNN-RN (§C.1): residual convolutions, then a relation network over all pairs of 8 × 8 places."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from trilith.nets.batch import Batch
from trilith.nets.cnn import convolution, pixels, pool
from trilith.world.observe.image import CHANNELS

BLOCKS = (16, 32, 8)
"""Channels of each residual block."""
PAIR_LAYERS = (64, 128)
"""Units of the two layers that read a pair of places."""


class ResidualBlock(nn.Module):
    """A convolution and a max pool, which halves the picture, and two more convolutions beside it.

    As printed the last convolution has stride 2 and could not be added to the pooled path; it has stride 1 here.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second, self.third = convolution(inputs, outputs), convolution(outputs, outputs), convolution(outputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(B, outputs, h / 2, w / 2) from (B, inputs, h, w)."""
        pooled = pool(self.first(x))
        out: Tensor = pooled + self.third(F.relu(self.second(pooled)))
        return out


class RelationEncoder(nn.Module):
    """An image as a vector: what pairs of its places say, averaged, and a linear layer."""

    def __init__(self, embedding: int = 256) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(ResidualBlock(a, b) for a, b in zip((CHANNELS, *BLOCKS), BLOCKS, strict=False))
        self.pair = nn.Linear(2 * BLOCKS[-1], PAIR_LAYERS[0])
        self.second = nn.Linear(*PAIR_LAYERS)
        self.linear = nn.Linear(PAIR_LAYERS[1], embedding)

    def forward(self, batch: Batch) -> Tensor:
        """(B, embedding). The first layer of a pair is a sum of two parts, which are computed a place, not a pair."""
        x = pixels(batch)
        for block in self.blocks:
            x = block(x)
        places = x.flatten(2).transpose(1, 2)  # (B, 64, 8)
        of_one, of_other = self.pair.weight.chunk(2, dim=1)
        one, other = F.linear(places, of_one, self.pair.bias), F.linear(places, of_other)
        pairs = F.relu(one[:, :, None] + other[:, None])  # (B, 64, 64, 64)
        out: Tensor = self.linear(F.relu(self.second(pairs)).mean(dim=(1, 2)))
        return out
