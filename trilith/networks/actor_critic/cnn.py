"""The paper's CNN (§C.1): the image of a scene through four convolutions, each with a max pool, to one vector."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trilith.networks.inputs.scene_batch import Floats32, SceneBatch
from trilith.world.observations.image import CHANNELS, COORDINATES, PIXELS
from trilith.world.observations.raster import images

LAYERS = (16, 32, 32, 32)
"""Output channels of each layer."""


def pixels(batch: SceneBatch) -> Tensor:
    """(B, 5, 64, 64): the images of a batch, equal to the environment's images, channels last in memory.

    States are stored in single precision. So a pixel whose centre lies within a micrometre of an edge may fall on the other side of it.
    """
    return batch.once("pixels", lambda: batch.send(_pixels(batch)).permute(0, 3, 1, 2))


def _pixels(batch: SceneBatch) -> Floats32:
    colours = images(*batch.drawing)
    return np.concatenate([colours, np.broadcast_to(COORDINATES, (len(colours), *COORDINATES.shape))], axis=-1)


def pool(x: Tensor) -> Tensor:
    """Max pool, 3 × 3, stride 2, "same": padded only at the end, and only where needed."""
    return F.max_pool2d(x, 3, stride=2, ceil_mode=True)


def convolution(inputs: int, outputs: int) -> nn.Conv2d:
    """3 × 3, stride 1, "same"; channels last, which is several times faster on a CPU."""
    return nn.Conv2d(inputs, outputs, 3, padding=1).to(memory_format=torch.channels_last)  # type: ignore[call-overload]


class CNNEncoder(nn.Module):
    """An image as a vector. The paper names a ReLU after the four layers and none between them; this encoder does the same."""

    def __init__(self, embedding: int = 256) -> None:
        super().__init__()
        self.layers = nn.ModuleList(convolution(a, b) for a, b in zip((CHANNELS, *LAYERS), LAYERS, strict=False))
        side = PIXELS >> len(LAYERS)
        self.linear = nn.Linear(side * side * LAYERS[-1], embedding)

    def forward(self, batch: SceneBatch) -> Tensor:
        """(B, embedding)"""
        x = pixels(batch)
        for layer in self.layers:
            x = pool(layer(x))
        return F.relu(self.linear(F.relu(x).flatten(1)))
