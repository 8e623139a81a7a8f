"""The paper's CNN-RN (§C.1): residual convolutions, then a relation network over all pairs of 8 × 8 places."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from trilith.networks.actor_critic.cnn import convolution, pixels, pool
from trilith.networks.inputs.scene_batch import SceneBatch
from trilith.world.observations.image import CHANNELS

BLOCKS = (16, 32, 8)
"""Output channels of each residual block."""
PAIR_LAYERS = (64, 128)
"""Units of the two layers that read a pair of places."""


class ResidualBlock(nn.Module):
    """A convolution and a max pool, which halves the picture, then two more convolutions on the residual branch.

    In the paper the last convolution has stride 2, so it could not be added to the pooled path. Here it has stride 1.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second, self.third = convolution(inputs, outputs), convolution(outputs, outputs), convolution(outputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(B, outputs, h / 2, w / 2) from (B, inputs, h, w)."""
        pooled = pool(self.first(x))
        return pooled + self.third(F.relu(self.second(pooled)))


class RelationEncoder(nn.Module):
    """An image as a vector: the mean of a function over all pairs of places, then a linear layer."""

    def __init__(self, embedding: int = 256) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(ResidualBlock(a, b) for a, b in zip((CHANNELS, *BLOCKS), BLOCKS, strict=False))
        self.pair = nn.Linear(2 * BLOCKS[-1], PAIR_LAYERS[0])
        self.second = nn.Linear(*PAIR_LAYERS)
        self.linear = nn.Linear(PAIR_LAYERS[1], embedding)

    def forward(self, batch: SceneBatch) -> Tensor:
        """(B, embedding). The first layer of a pair is a sum of two parts. Each part is computed once per place, not once per pair."""
        x = pixels(batch)
        for block in self.blocks:
            x = block(x)
        places = x.flatten(2).transpose(1, 2)  # (B, 64, 8)
        of_one, of_other = self.pair.weight.chunk(2, dim=1)
        one, other = F.linear(places, of_one, self.pair.bias), F.linear(places, of_other)
        return self.linear(mean_of_pairs(one, other, self.second.weight, self.second.bias))


def mean_of_pairs(one: Tensor, other: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(B, units): relu(weight · relu(one[i] + other[j]) + bias), averaged over all pairs of places, from parts (B, places, width) of each.

    The 4,096 pairs of each of a hundred images do not fit into a processor's caches. So images are computed one at a time, and the
    backward pass computes the pairs again instead of storing them. This is twice as fast and needs a hundredth of the memory.
    """
    return _Pairs.apply(one, other, weight, bias)


def _pairs(one: Tensor, other: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """(places², width) and (places², units): both layers for one image."""
    hidden = F.relu(one[:, None] + other).flatten(0, 1)
    return hidden, F.relu(torch.addmm(bias, hidden, weight.t()))


class _Pairs(torch.autograd.Function):
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
