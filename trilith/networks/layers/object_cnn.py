"""The paper's CNN for one object (§C.2). It maps a segmented image to 32 features by three convolutions with max pools, followed by two
linear layers.

An object covers only a few of the 64 × 64 pixels. At all other pixels its channels are 0, except for the coordinates. Outside a window
around the object, the output of every layer equals the output for an empty picture. That output is one fixed map for all objects. So this
module computes only the difference from the fixed map, in a window that grows from layer to layer with the receptive field. Up to rounding,
the result equals that of the plain CNN in `tests/networks/plain_cnn.py`.

Windows begin and end at multiples of 8 pixels, so that each can be halved three times. Only a few window sizes are used, because all
windows of one size are computed in one call, and an extra call costs more than a larger window. Identical windows are computed once, for
example the windows of available blocks in different scenes.
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
"""Factor of the initial weights of the first linear layer: the square root of 64 / 4. The last feature map has 64 positions, and an object
affects about four of them."""
_COLOURS = CHANNELS - 2
"""Number of channels that are 0 outside the object: red, green, blue, alpha."""
_REACH = ((1, 2), (2, 1), (1, 1))
"""For each layer: the numbers of extra rows and columns before and after the convolved window that the max pool needs (see
`image_windows.Reach`)."""


class Maps(NamedTuple):
    """The outputs of one layer for an empty picture: C channels of s × s positions."""

    convolved: Tensor
    """(1, C, s, s): the output of the layer's convolution."""
    pooled: Tensor
    """(1, C, s / 2, s / 2): the output of the layer's max pool."""


class Windows(NamedTuple):
    """All n different windows of one size: the parts of pictures that show an object. Objects with identical windows share one."""

    colours: Tensor
    """(n, 4, h, w): red, green, blue and alpha of the h × w pixels of each window. The channels are last in memory."""
    top: Tensor
    """(n,): the first row of each window in the picture of 64 × 64 pixels."""
    left: Tensor
    """(n,): the first column of each window in the picture of 64 × 64 pixels."""


class Segments(NamedTuple):
    """The windows and moments of V objects, and the relations of their pairs."""

    sizes: list[Windows]
    """The windows of all objects, grouped by size."""
    which: Tensor
    """(V,): for each object, the index of its window, if the windows of all sizes are concatenated."""
    moments: Tensor
    """(V, 13): the moments of each object, in the order of `MOMENT_COLUMNS`."""
    relations: Tensor
    """(p, 16): the features of the p pairs of objects in the same scene, see `image_moments.relations`. Available blocks are left out."""


@once_per_batch
def segments_of(batch: SceneBatch) -> Segments:
    """The visual inputs of all objects of a batch. In each scene the available blocks come first, then the other objects."""
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
    """Returns the same as `segments_of`, the visual inputs of all objects of a batch, but with an empty picture for every object."""
    count = int(batch.nodes.sum())
    shapes = ((1, _COLOURS, LEAST, LEAST), (count, MOMENTS), (int(batch.first_pair[-1]), RELATIONS))
    colours, where, between = (batch.send(np.zeros(shape, np.float32)) for shape in shapes)
    corner, which = (batch.send(np.zeros(size, np.int64)) for size in (1, count))
    return Segments([Windows(colours, corner, corner)], which, where, between)


class ObjectCNN(nn.Module):
    """Computes features of objects from their segmented images. With `blank`, all images are replaced by empty ones."""

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
        """Sets initial weights that make the features of different objects differ. With torch's default weights, most of a feature would
        come from the coordinate channels, which are the same for all objects, and many features would always be 0."""
        for part in (*self.layers, self.hidden, self.out):
            nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
            nn.init.zeros_(part.bias)
        self.hidden.weight.mul_(_FEW)  # only few of its inputs see the object
        self.hidden.bias.sub_(self.hidden(F.relu(self.fixed_maps()[-1].pooled).flatten()))  # so that an empty picture gives 0

    def segments(self, batch: SceneBatch) -> Segments:
        """The visual inputs of all objects of a batch, with empty pictures if `blank`. In each scene the available blocks come first, then
        the other objects."""
        return no_segments(batch) if self.blank else segments_of(batch)

    def forward(self, batch: SceneBatch) -> Tensor:
        """Returns the features (V, 32) of all V objects of a batch. In each scene the available blocks come first, then the other
        objects."""
        segments, maps = self.segments(batch), self._maps()
        last = torch.cat([self.window(each, maps) for each in segments.sizes])
        features = F.relu(self.out(F.relu(self.hidden(F.relu(last).flatten(1)))))
        return features.index_select(0, segments.which)

    def _maps(self) -> list[Maps]:
        """Returns the result of `fixed_maps`: the outputs of each layer for an empty picture. If no gradient is needed, the result is
        cached until the weights change."""
        if torch.is_grad_enabled():
            return self.fixed_maps()
        weights = [(each.data_ptr(), each._version) for each in self.layers.parameters()]
        if self._known is None or self._known[0] != weights:
            self._known = weights, self.fixed_maps()
        return self._known[1]

    def fixed_maps(self) -> list[Maps]:
        """The outputs of each layer for an empty picture. The channels of an empty picture are 0, except for the coordinates."""
        maps, x = list[Maps](), torch.as_tensor(self.empty)
        for layer in self.layers:
            convolved = layer(x)
            x = pool(convolved)
            maps.append(Maps(convolved, x))
        return maps

    def window(self, given: Windows, maps: list[Maps]) -> Tensor:
        """Returns the output (n, 8, 8, 8) of the last pool for n windows of the same size. `maps` has the outputs of each layer for an
        empty picture.

        A window holds the difference from an empty picture. Convolutions are linear, so the convolution of the window is added to the fixed
        map. The max pool of this sum minus the max pool of the fixed map is the difference that enters the next layer.
        """
        added, top, left = given.colours, given.top, given.left
        for layer, (convolved, pooled), reach in zip(self.layers, maps, _REACH, strict=True):
            assert isinstance(layer, nn.Conv2d)
            grown = F.conv2d(added, layer.weight[:, : added.shape[1]], padding=2)  # one more row and column on each side than the input
            added, top, left = pool_added(grown, convolved, pooled, top - 1, left - 1, reach)
        return add_to_map(added, pooled, top, left)
