"""The paper's CNN of one object (§C.2): its segmented image through three convolutions with max pools and two layers to 32 features.

An object covers a few of 64 × 64 pixels; everywhere else its channels are 0 but for the coordinates. So outside the window around
it, grown by each layer's reach, every layer's output is one fixed map for all objects, that of a picture with nothing in it.
Here only windows are computed, as what they add to the fixed maps: the same function as the plain form in `tests/nets/plain_cnn.py`,
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

from trilith.nets.batch import Batch
from trilith.nets.cnn import convolution, pool
from trilith.world.observe.image import COORDINATES, PIXELS
from trilith.world.observe.raster import LEAST, TILE, windows
from trilith.world.observe.segments import CHANNELS

LAYERS = (8, 16, 8)
"""Channels of each layer's output."""
HIDDEN = 64
PIXEL_FEATURES = 32
"""Features of an object."""
_FRAME = TILE
"""Places around a map: no window reaches further beyond it."""
_FEW = 4.0
"""Square root of 64 places of the last map over those, about four, that an object is seen in."""
_COLOURS = CHANNELS - 2
"""Channels that are 0 outside the object: red, green, blue, alpha."""
_PADDING = ((1, 2), (2, 1), (1, 1))
"""How many more places each layer's pool looks at before and after those that its convolution adds something to: all that reach them."""


class Maps(NamedTuple):
    """What a layer gives for a picture with nothing in it."""

    convolved: Tensor
    """(s + 16, s + 16, C): after the convolution, in a frame of what a pool never picks."""
    framed: Tensor
    """(s / 2 + 16, s / 2 + 16, C): after the pool, in a frame of 0."""
    pooled: Tensor
    """(1, C, s / 2, s / 2): the same without the frame."""


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


def segments_of(batch: Batch) -> Segments:
    """The windows of a batch: of each scene the available blocks, then the other objects. Computed once, in main memory."""
    if "segments" not in batch.memo:
        batch.memo["segments"] = _segments(batch)
    found: Segments = batch.memo["segments"]
    return found


def _segments(batch: Batch) -> Segments:
    host = batch.host
    assert host.points is not None, "the layout stores no glue points"
    assert host.glued is not None
    objects = [each.numpy() for each in (host.pose, host.size, host.role, host.sticky, host.points, host.glued)]
    boxes, first, pixels = windows(host.available.numpy(), host.present.sum(dim=1).numpy(), *objects)
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
        colours = torch.from_numpy(pixels[start[:, None] + np.arange(size[0] * size[1])]).view(len(start), *size, _COLOURS)
        sizes.append(
            Windows(*(batch.send(each) for each in (colours.permute(0, 3, 1, 2), torch.from_numpy(top_), torch.from_numpy(left_))))
        )
    return Segments(sizes, batch.send(torch.tensor([place[name] for name in names])))


def no_segments(batch: Batch) -> Segments:
    """The same if nothing were seen of any object."""
    empty = Windows(torch.zeros(1, _COLOURS, LEAST, LEAST), *torch.zeros(2, 1, dtype=torch.int64))
    count = int(batch.host.available.sum() + batch.host.present.sum())
    return Segments([Windows(*(batch.send(each) for each in empty))], batch.send(torch.zeros(count, dtype=torch.int64)))


class ObjectCNN(nn.Module):
    """Features of segmented images; if `blank`, of empty ones."""

    def __init__(self, blank: bool = False) -> None:
        super().__init__()
        self.blank = blank
        self.layers = nn.ModuleList(convolution(a, b) for a, b in zip((CHANNELS, *LAYERS), LAYERS, strict=False))
        side = PIXELS >> len(LAYERS)
        self.hidden = nn.Linear(side * side * LAYERS[-1], HIDDEN)
        self.out = nn.Linear(HIDDEN, PIXEL_FEATURES)
        empty = torch.cat([torch.zeros(_COLOURS, PIXELS, PIXELS), torch.from_numpy(COORDINATES.copy()).permute(2, 0, 1)])
        self.register_buffer("empty", empty[None], persistent=False)
        self.empty: Tensor
        self._known: tuple[list[tuple[int, int]], list[Maps]] | None = None
        self._start()

    @torch.no_grad()
    def _start(self) -> None:
        """First weights by which objects differ as much as inputs of a network should. With the usual ones most of a feature is what the
        coordinates add to it, the same for all objects, and many features are 0 for all."""
        for part in (*self.layers, self.hidden, self.out):
            nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
            nn.init.zeros_(part.bias)
        self.hidden.weight *= _FEW  # of its inputs few see the object
        self.hidden.bias -= self.hidden(F.relu(self.fixed_maps()[-1].pooled).flatten())  # so an empty picture comes out as 0

    def forward(self, batch: Batch) -> Tensor:
        """(V, 32): of each scene the available blocks, then the other objects."""
        segments = no_segments(batch) if self.blank else segments_of(batch)
        maps = self._maps()
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
        maps, x = [], self.empty
        for layer in self.layers:
            convolved = layer(x)
            x = pool(convolved)
            maps.append(Maps(_framed(convolved, -torch.inf), _framed(x, 0.0), x))
        return maps

    def window(self, given: Windows, maps: list[Maps]) -> Tensor:
        """(n, 8, 8, 8): what the last pool gives for windows of one size.

        As convolutions are linear, what a window adds to a layer's input adds its convolution to the fixed map; the pool of that
        sum, without the fixed pool, is what it adds to the next input.
        """
        added, top, left = given.colours, given.top, given.left
        for layer, (convolved, framed, pooled), (pad, pad_after) in zip(self.layers, maps, _PADDING, strict=True):
            assert isinstance(layer, nn.Conv2d)
            weight = layer.weight[:, : added.shape[1]]
            grown = F.conv2d(added, weight, padding=2)  # one more on each side than it was given
            tall, wide = grown.shape[2] + pad + pad_after, grown.shape[3] + pad + pad_after
            start, along = top - 1 - pad, left - 1 - pad  # even, as windows begin at multiples of 8
            whole = _cut(convolved, start, along, tall, wide) + F.pad(grown, (pad, pad_after, pad, pad_after))
            new = F.max_pool2d(whole, 3, stride=2)
            top, left = start // 2, along // 2
            inside = _inside(top, new.shape[2], pooled.shape[2])[:, :, None] & _inside(left, new.shape[3], pooled.shape[3])[:, None]
            fixed = _cut(framed, top, left, new.shape[2], new.shape[3])
            added = torch.where(inside[:, None], new - fixed, 0.0)
        return pooled + _paste(added, top, left, pooled.shape[2])


def _inside(first: Tensor, count: int, side: int) -> Tensor:
    """(n, count) bool: which places from `first` (n,) on are within a picture."""
    at = first[:, None] + torch.arange(count, device=first.device)
    return (at >= 0) & (at < side)


def _framed(fixed: Tensor, outside: float) -> Tensor:
    """(s + 16, s + 16, C): a map (1, C, s, s) with a frame of what is outside it, channels last."""
    return F.pad(fixed[0], (_FRAME,) * 4, value=outside).permute(1, 2, 0).contiguous()


def _cut(framed: Tensor, top: Tensor, left: Tensor, tall: int, wide: int) -> Tensor:
    """(n, C, tall, wide): parts of a map with its frame that begin at `top` and `left` (n,) of the map."""
    rows = top[:, None] + _FRAME + torch.arange(tall, device=top.device)
    columns = left[:, None] + _FRAME + torch.arange(wide, device=top.device)
    flat = rows[:, :, None] * framed.shape[1] + columns[:, None]
    return framed.flatten(0, 1).index_select(0, flat.flatten()).view(*flat.shape, -1).permute(0, 3, 1, 2)


def _paste(parts: Tensor, top: Tensor, left: Tensor, side: int) -> Tensor:
    """(n, C, side, side): parts (n, C, h, w) where they belong in a map that is 0; they are 0 where they are outside it."""
    n, channels, h, w = parts.shape
    rows = (top[:, None] + torch.arange(h, device=top.device)).clamp(0, side - 1)
    columns = (left[:, None] + torch.arange(w, device=top.device)).clamp(0, side - 1)
    flat = (rows[:, :, None] * side + columns[:, None]).flatten(1)[:, None].expand(-1, channels, -1)
    return parts.new_zeros(n, channels, side * side).scatter_add(2, flat, parts.reshape(n, channels, -1)).view(n, channels, side, side)
