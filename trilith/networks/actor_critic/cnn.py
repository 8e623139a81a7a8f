"""The paper's CNN (§C.1): the image of a scene through four convolutions, each with a max pool, to one vector."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trilith.networks.inputs.scene_batch import Batch
from trilith.world.observations.image import CHANNELS, COORDINATES, PIXELS
from trilith.world.observations.raster import images

LAYERS = (16, 32, 32, 32)
"""Channels of each layer's output."""


def pixels(batch: Batch) -> Tensor:
    """(B, 5, 64, 64): the images of a batch as the environment has them, channels last in memory.

    States are stored in single precision, so a pixel whose centre lies within a micrometre of an edge may fall on its other side.
    Computed once a batch, in main memory: the learning and the target network both ask for it.
    """
    if "pixels" not in batch.memo:
        host = batch.host
        assert host.points is not None, "the layout stores no glue points"
        assert host.glued is not None
        objects = [each.numpy() for each in (host.pose, host.size, host.role, host.sticky, host.points, host.glued)]
        colours = torch.from_numpy(images(host.available.numpy(), host.present.sum(dim=1).numpy(), *objects))
        both = torch.cat([colours, torch.from_numpy(COORDINATES.copy()).expand(len(colours), -1, -1, -1)], dim=-1)
        batch.memo["pixels"] = batch.send(both).permute(0, 3, 1, 2)
    found: Tensor = batch.memo["pixels"]
    return found


def pool(x: Tensor) -> Tensor:
    """Greatest of 3 × 3 places at every second one, padded at the end alone where that is needed ("same")."""
    return F.max_pool2d(x, 3, stride=2, ceil_mode=True)


def convolution(inputs: int, outputs: int) -> nn.Conv2d:
    """3 × 3, stride 1, "same"; channels last, which is several times faster on a CPU."""
    return nn.Conv2d(inputs, outputs, 3, padding=1).to(memory_format=torch.channels_last)  # type: ignore[call-overload]


class CNNEncoder(nn.Module):
    """An image as a vector. The print names a ReLU after the four layers and none between them; so it is here."""

    def __init__(self, embedding: int = 256) -> None:
        super().__init__()
        self.layers = nn.ModuleList(convolution(a, b) for a, b in zip((CHANNELS, *LAYERS), LAYERS, strict=False))
        side = PIXELS >> len(LAYERS)
        self.linear = nn.Linear(side * side * LAYERS[-1], embedding)

    def forward(self, batch: Batch) -> Tensor:
        """(B, embedding)"""
        x = pixels(batch)
        for layer in self.layers:
            x = pool(layer(x))
        return F.relu(self.linear(F.relu(x).flatten(1)))
