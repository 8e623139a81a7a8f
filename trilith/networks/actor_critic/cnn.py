"""The paper's networks that read the image of a scene (§C.1).

The CNN has four convolutions, each followed by a max pool. The CNN-RN has residual convolutions, followed by a relation network over all
pairs of positions in a feature map of 8 × 8.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from trilith.networks.inputs.scene_batch import SceneBatch, once_per_batch
from trilith.world.observations.batch_images import images
from trilith.world.observations.image import CHANNELS, COORDINATES, PIXELS

LAYERS = (16, 32, 32, 32)
"""CNN: output channels of each layer."""
BLOCKS = (16, 32, 8)
"""CNN-RN: output channels of each residual block."""
PAIR_LAYERS = (64, 128)
"""CNN-RN: units of the two layers that read a pair of positions."""


@once_per_batch
def pixels(batch: SceneBatch) -> Tensor:
    """The images (B, 5, 64, 64) of the B scenes of a batch: red, green, blue, and the x and y of each pixel. The channels are last in
    memory.

    The images equal the images from the environment, with one exception. States are stored in single precision, so a pixel may differ if
    its centre lies within a micrometre of an object's boundary.
    """
    colours = images(*batch.drawing)
    seen = np.concatenate([colours, np.broadcast_to(COORDINATES, (len(colours), *COORDINATES.shape))], axis=-1)
    return batch.send(seen).permute(0, 3, 1, 2)


def pool(x: Tensor) -> Tensor:
    """A 3 × 3 max pool with stride 2 and "same" padding, which halves height and width if these are even. An axis is padded only at its
    end, and only if needed."""
    return F.max_pool2d(x, 3, stride=2, ceil_mode=True)


def convolution(inputs: int, outputs: int) -> nn.Conv2d:
    """Makes a 3 × 3 convolution with stride 1 and "same" padding. Its weights have the channels last in memory. This layout is several
    times faster on a CPU."""
    return nn.Conv2d(inputs, outputs, 3, padding=1).to(memory_format=torch.channels_last)  # type: ignore[call-overload]


class CNNEncoder(nn.Module):
    """Encodes an image as a vector. As in the paper, there is a ReLU after the last of the four convolutions, but none between them."""

    def __init__(self, embedding: int = 256) -> None:
        super().__init__()
        self.layers = nn.ModuleList(convolution(a, b) for a, b in zip((CHANNELS, *LAYERS), LAYERS, strict=False))
        side = PIXELS >> len(LAYERS)
        self.linear = nn.Linear(side * side * LAYERS[-1], embedding)

    def forward(self, batch: SceneBatch) -> Tensor:
        """Returns the encoded images (B, embedding) of the B scenes of a batch."""
        x = pixels(batch)
        for layer in self.layers:
            x = pool(layer(x))
        return F.relu(self.linear(F.relu(x).flatten(1)))


class ResidualBlock(nn.Module):
    """A convolution and a max pool, which halves height and width, followed by a residual branch of two more convolutions.

    In the paper the last convolution has stride 2, but then its output would be too small to be added to the pooled path. Here it has
    stride 1.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second, self.third = convolution(inputs, outputs), convolution(outputs, outputs), convolution(outputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Maps a tensor (B, inputs, h, w) to (B, outputs, h / 2, w / 2)."""
        pooled = pool(self.first(x))
        return pooled + self.third(F.relu(self.second(pooled)))


class RelationEncoder(nn.Module):
    """Encodes an image as a vector: residual convolutions, then the mean of a function over all pairs of positions, then a linear layer."""

    def __init__(self, embedding: int = 256) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(ResidualBlock(a, b) for a, b in zip((CHANNELS, *BLOCKS), BLOCKS, strict=False))
        self.pair = nn.Linear(2 * BLOCKS[-1], PAIR_LAYERS[0])
        self.second = nn.Linear(*PAIR_LAYERS)
        self.linear = nn.Linear(PAIR_LAYERS[1], embedding)

    def forward(self, batch: SceneBatch) -> Tensor:
        """Returns the encoded images (B, embedding) of the B scenes of a batch.

        The first layer of the function of a pair is a sum of two parts, one for each position of the pair. So each part is computed once
        per position, not once per pair.
        """
        x = pixels(batch)
        for block in self.blocks:
            x = block(x)
        places = x.flatten(2).transpose(1, 2)  # (B, 64, 8)
        of_one, of_other = self.pair.weight.chunk(2, dim=1)
        one, other = F.linear(places, of_one, self.pair.bias), F.linear(places, of_other)
        return self.linear(_MeanOfPairs.apply(one, other, self.second.weight, self.second.bias))


def _pairs(one: Tensor, other: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Applies a function with two layers to all n² ordered pairs of the n positions in one image. Returns the outputs of the first layer
    (n², width) and of the second layer (n², units). The pair of positions i and j is in row n · i + j.

    The first layer is relu(one[i] + other[j]), where `one` and `other` are (n, width). The second layer is relu(`weight` · first layer +
    `bias`), where `weight` is (units, width) and `bias` (units,).
    """
    hidden = F.relu(one[:, None] + other).flatten(0, 1)
    return hidden, F.relu(torch.addmm(bias, hidden, weight.t()))


class _MeanOfPairs(torch.autograd.Function):
    """An autograd function. Its output (B, units) is, for each of B images, the mean of relu(weight · relu(one[i] + other[j]) + bias) over
    all pairs (i, j) of n positions.

    The inputs `one` and `other` are (B, n, width), `weight` is (units, width) and `bias` (units,).

    The 4,096 pairs of each of a hundred images do not fit into a processor's caches. So images are processed one at a time, and the
    backward pass computes the pairs again, so that they need not be stored. Compared with all images at once, this is twice as fast and
    needs a hundredth of the memory.
    """

    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(one, other, weight, bias)
        return torch.stack([_pairs(*each, weight, bias)[1].mean(dim=0) for each in zip(one, other, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        one, other, weight, bias = ctx.saved_tensors
        back = one_grad, other_grad, weight_grad, bias_grad = tuple(torch.zeros_like(each) for each in ctx.saved_tensors)
        places = one.shape[1]
        for i, pull in enumerate(grads[0] / places**2):
            hidden, units = _pairs(one[i], other[i], weight, bias)
            above = torch.ops.aten.threshold_backward(pull.expand_as(units), units, 0)  # gradient where the units are positive
            weight_grad.addmm_(above.t(), hidden)
            bias_grad += above.sum(dim=0)
            below = torch.ops.aten.threshold_backward(above @ weight, hidden, 0).view(places, places, -1)
            one_grad[i], other_grad[i] = below.sum(dim=1), below.sum(dim=0)
        return back
