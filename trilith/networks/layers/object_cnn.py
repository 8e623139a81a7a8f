"""The paper's CNN for one object (§C.2). It maps a segmented image to 32 features by three convolutions with max pools, then two layers.

An object covers only a few of the 64 × 64 pixels. At all other pixels its channels are 0, except for the coordinates. Outside
a window around the object, every layer's output therefore equals that of an empty picture: one fixed map for all objects. This module
computes only the difference to the fixed maps, in a window that grows with each layer's receptive field. Up to rounding the result
equals the plain form in `tests/networks/plain_cnn.py`.

Windows begin and end at multiples of 8 pixels, so that each can be halved three times. There are few sizes, because extra arithmetic
is cheaper than one call per size. Identical windows, such as those of the available blocks, are computed once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trilith.networks.actor_critic.cnn import convolution, pool
from trilith.networks.inference.pixels import HIDDEN, LAYERS, PIXEL_FEATURES
from trilith.networks.inputs.image_moments import MOMENTS, RELATIONS, moments, relations
from trilith.networks.inputs.scene_batch import SceneBatch, once_per_batch
from trilith.networks.kernels.image_windows import add_to_map, pool_added
from trilith.world.observations.batch_images import LEAST
from trilith.world.observations.image import COORDINATES, PIXELS
from trilith.world.observations.segments import CHANNELS
from trilith.world.scene import SLOTS

_FEW = 4.0
"""Square root of 64 / 4: the last map has 64 positions, and an object affects about four of them."""
_COLOURS = CHANNELS - 2
"""Channels that are 0 outside the object: red, green, blue, alpha."""
_REACH = ((1, 2), (2, 1), (1, 1))
"""For each layer: number of extra rows (and columns) before and after the convolution's output, so that every pool that overlaps it
is computed."""


class Maps(NamedTuple):
    """The output of a layer for an empty picture."""

    convolved: Tensor
    """(1, C, s, s): after the convolution."""
    pooled: Tensor
    """(1, C, s / 2, s / 2): after the pool."""


class Windows(NamedTuple):
    """All n windows of one size, without duplicates."""

    colours: Tensor
    """(n, 4, h, w): red, green, blue and alpha, channels last in memory."""
    top: Tensor
    """(n,): the first row of each window in the picture."""
    left: Tensor
    """(n,): the first column of each window."""


class Segments(NamedTuple):
    """The visual inputs of V objects."""

    sizes: list[Windows]
    """The windows by size."""
    which: Tensor
    """(V,): the index of each object's window, if the windows of all sizes are concatenated."""
    moments: Tensor
    """(V, 13): the moments of each object."""
    relations: Tensor
    """(p, 16): the relations of each pair of objects of a scene, without available blocks."""


@once_per_batch
def segments_of(batch: SceneBatch) -> Segments:
    """The windows of a batch: in each scene first the available blocks, then the other objects."""
    boxes, first, pixels = batch.windows()
    by_size: dict[tuple[int, int], dict[bytes, tuple[int, int, int]]] = {}
    names: list[tuple[tuple[int, int], bytes]] = []
    for v, (top, bottom, left, right) in enumerate(boxes.tolist()):
        size = bottom - top, right - left
        name = boxes[v].tobytes() + pixels[first[v] : first[v] + size[0] * size[1]].tobytes()
        by_size.setdefault(size, {}).setdefault(name, (int(first[v]), top, left))
        names.append((size, name))
    place: dict[tuple[tuple[int, int], bytes], int] = {}
    sizes = []
    for size, found in by_size.items():
        place |= {(size, name): len(place) + i for i, name in enumerate(found)}
        start, top_, left_ = (np.array(each) for each in zip(*found.values(), strict=True))
        colours = pixels[start[:, None] + np.arange(size[0] * size[1])].reshape(len(start), *size, _COLOURS)
        sizes.append(Windows(batch.send(colours.transpose(0, 3, 1, 2)), batch.send(top_), batch.send(left_)))
    where = moments(boxes, first, pixels)
    between = relations(where[batch.nodes.nonzero()[1] >= SLOTS], *batch.pairs)
    which = np.array([place[name] for name in names])
    return Segments(sizes, batch.send(which), batch.send(where), batch.send(between))


def no_segments(batch: SceneBatch) -> Segments:
    """Like `segments_of`, with an empty picture for every object."""
    count = int(batch.nodes.sum())
    shapes = ((1, _COLOURS, LEAST, LEAST), (count, MOMENTS), (int(batch.first_pair[-1]), RELATIONS))
    colours, where, between = (batch.send(np.zeros(shape, np.float32)) for shape in shapes)
    corner, which = (batch.send(np.zeros(size, np.int64)) for size in (1, count))
    return Segments([Windows(colours, corner, corner)], which, where, between)


class ObjectCNN(nn.Module):
    """Computes features of segmented images. With `blank`, all images are replaced by empty ones."""

    def __init__(self, blank: bool = False) -> None:
        super().__init__()
        self.blank = blank
        self.layers = nn.ModuleList(convolution(a, b) for a, b in zip((CHANNELS, *LAYERS), LAYERS, strict=False))
        side = PIXELS >> len(LAYERS)
        self.hidden = nn.Linear(side * side * LAYERS[-1], HIDDEN)
        self.out = nn.Linear(HIDDEN, PIXEL_FEATURES)
        empty = torch.cat([torch.zeros(_COLOURS, PIXELS, PIXELS), torch.tensor(COORDINATES).permute(2, 0, 1)])
        self.empty = nn.Buffer(empty[None], persistent=False)
        self._known: tuple[list[tuple[int, int]], list[Maps]] | None = None
        self._start()

    @torch.no_grad()
    def _start(self) -> None:
        """Sets initial weights with which the features of objects differ. With the usual initial weights, features depend mostly on
        the coordinates, which are the same for all objects, and many features are 0 for all objects."""
        for part in (*self.layers, self.hidden, self.out):
            nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
            nn.init.zeros_(part.bias)
        self.hidden.weight.mul_(_FEW)  # only few of its inputs see the object
        self.hidden.bias.sub_(self.hidden(F.relu(self.fixed_maps()[-1].pooled).flatten()))  # so that an empty picture gives 0

    def segments(self, batch: SceneBatch) -> Segments:
        """The visual inputs of a batch: in each scene first the available blocks, then the other objects."""
        return no_segments(batch) if self.blank else segments_of(batch)

    def forward(self, batch: SceneBatch) -> Tensor:
        """(V, 32): features of objects. In each scene the available blocks come first, then the other objects."""
        segments, maps = self.segments(batch), self._maps()
        last = torch.cat([self.window(each, maps) for each in segments.sizes])
        features = F.relu(self.out(F.relu(self.hidden(F.relu(last).flatten(1)))))
        return features.index_select(0, segments.which)

    def _maps(self) -> list[Maps]:
        """`fixed_maps`, computed once per set of weights if no gradient is needed."""
        if torch.is_grad_enabled():
            return self.fixed_maps()
        weights = [(each.data_ptr(), each._version) for each in self.layers.parameters()]
        if self._known is None or self._known[0] != weights:
            self._known = weights, self.fixed_maps()
        return self._known[1]

    def fixed_maps(self) -> list[Maps]:
        """Each layer's output for a picture with coordinates only."""
        maps, x = list[Maps](), torch.as_tensor(self.empty)
        for layer in self.layers:
            convolved = layer(x)
            x = pool(convolved)
            maps.append(Maps(convolved, x))
        return maps

    def window(self, given: Windows, maps: list[Maps]) -> Tensor:
        """(n, 8, 8, 8): the output of the last pool for windows of one size.

        A window holds the difference to an empty picture. Convolutions are linear, so its convolution is added to the fixed map. The
        pool of this sum, minus the fixed pool, is the difference in the next layer's input.
        """
        added, top, left = given.colours, given.top, given.left
        for layer, (convolved, pooled), reach in zip(self.layers, maps, _REACH, strict=True):
            assert isinstance(layer, nn.Conv2d)
            grown = F.conv2d(added, layer.weight[:, : added.shape[1]], padding=2)  # one more row and column on each side than the input
            added, top, left = pool_added(grown, convolved, pooled, top - 1, left - 1, reach)
        return add_to_map(added, pooled, top, left)
