"""The paper's CNN of one object (§C.2): its segmented image through three convolutions with max pools and two layers to 32 features.

An object covers a few of 64 × 64 pixels; everywhere else its channels are 0 but for the coordinates. So outside the window around
it, grown by each layer's reach, every layer's output is one fixed map for all objects, that of a picture with nothing in it.
Here only windows are computed, as what they add to the fixed maps: the same function as the plain form in `tests/networks/plain_cnn.py`,
to rounding. Windows begin and end at multiples of 8 pixels, so that each halves three times; there are few sizes of them, as
arithmetic is cheap beside a call for each size.
Windows that are the same to the byte, as those of the available blocks are, are computed once.
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
from trilith.networks.inputs.scene_batch import SceneBatch
from trilith.networks.kernels.image_windows import add_to_map, pool_added
from trilith.world.observations.image import COORDINATES, PIXELS
from trilith.world.observations.raster import LEAST
from trilith.world.observations.segments import CHANNELS
from trilith.world.scene import SLOTS

_FEW = 4.0
"""Square root of 64 places of the last map over those, about four, that an object is seen in."""
_COLOURS = CHANNELS - 2
"""Channels that are 0 outside the object: red, green, blue, alpha."""
_REACH = ((1, 2), (2, 1), (1, 1))
"""How many more places each layer's pool looks at before and after those that its convolution adds something to: all that reach them."""


class Maps(NamedTuple):
    """What a layer gives for a picture with nothing in it."""

    convolved: Tensor
    """(1, C, s, s): after the convolution."""
    pooled: Tensor
    """(1, C, s / 2, s / 2): after the pool."""


class Windows(NamedTuple):
    """All windows of one size, n of them, no two the same."""

    colours: Tensor
    """(n, 4, h, w): red, green, blue and alpha, channels last in memory."""
    top: Tensor
    """(n,): the first row of each in the picture."""
    left: Tensor
    """(n,): its first column."""


class Segments(NamedTuple):
    """What is seen of V objects."""

    sizes: list[Windows]
    """Their windows by size."""
    which: Tensor
    """(V,): which window each object has, those of all sizes one after another."""
    moments: Tensor
    """(V, 13): the moments of each object."""
    relations: Tensor
    """(p, 16): the relations of each pair of objects of a scene, available blocks aside."""


def segments_of(batch: SceneBatch) -> Segments:
    """The windows of a batch: of each scene the available blocks, then the other objects."""
    return batch.once("segments", lambda: _segments(batch))


def _segments(batch: SceneBatch) -> Segments:
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
    """The same if nothing were seen of any object."""
    count = int(batch.nodes.sum())
    shapes = ((1, _COLOURS, LEAST, LEAST), (count, MOMENTS), (int(batch.first_pair[-1]), RELATIONS))
    colours, where, between = (batch.send(np.zeros(shape, np.float32)) for shape in shapes)
    corner, which = (batch.send(np.zeros(size, np.int64)) for size in (1, count))
    return Segments([Windows(colours, corner, corner)], which, where, between)


class ObjectCNN(nn.Module):
    """Features of segmented images; if `blank`, of empty ones."""

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
        """First weights by which objects differ as much as inputs of a network should. With the usual ones most of a feature is what the
        coordinates add to it, the same for all objects, and many features are 0 for all."""
        for part in (*self.layers, self.hidden, self.out):
            nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
            nn.init.zeros_(part.bias)
        self.hidden.weight.mul_(_FEW)  # of its inputs few see the object
        self.hidden.bias.sub_(self.hidden(F.relu(self.fixed_maps()[-1].pooled).flatten()))  # so an empty picture comes out as 0

    def segments(self, batch: SceneBatch) -> Segments:
        """What is seen of the objects of a batch: of each scene the available blocks, then the others."""
        return no_segments(batch) if self.blank else segments_of(batch)

    def forward(self, batch: SceneBatch) -> Tensor:
        """(V, 32): of each scene the available blocks, then the other objects."""
        segments, maps = self.segments(batch), self._maps()
        last = torch.cat([self.window(each, maps) for each in segments.sizes])
        features = F.relu(self.out(F.relu(self.hidden(F.relu(last).flatten(1)))))
        return features.index_select(0, segments.which)

    def _maps(self) -> list[Maps]:
        """`fixed_maps`, once for each set of weights if there is nothing to learn."""
        if torch.is_grad_enabled():
            return self.fixed_maps()
        weights = [(each.data_ptr(), each._version) for each in self.layers.parameters()]
        if self._known is None or self._known[0] != weights:
            self._known = weights, self.fixed_maps()
        return self._known[1]

    def fixed_maps(self) -> list[Maps]:
        """What each layer gives where there is nothing but coordinates."""
        maps, x = list[Maps](), torch.as_tensor(self.empty)
        for layer in self.layers:
            convolved = layer(x)
            x = pool(convolved)
            maps.append(Maps(convolved, x))
        return maps

    def window(self, given: Windows, maps: list[Maps]) -> Tensor:
        """(n, 8, 8, 8): what the last pool gives for windows of one size.

        As convolutions are linear, what a window adds to a layer's input adds its convolution to the fixed map; the pool of that
        sum, without the fixed pool, is what it adds to the next input.
        """
        added, top, left = given.colours, given.top, given.left
        for layer, (convolved, pooled), reach in zip(self.layers, maps, _REACH, strict=True):
            assert isinstance(layer, nn.Conv2d)
            grown = F.conv2d(added, layer.weight[:, : added.shape[1]], padding=2)  # one more on each side than it was given
            added, top, left = pool_added(grown, convolved, pooled, top - 1, left - 1, reach)
        return add_to_map(added, pooled, top, left)
