"""The network `pixel-attention` for acting without torch: arrays and compiled loops.

`ActingPixels` computes the same function as `pixel_attention.PixelAttentionNet` and loads its weights; a test compares the two. The
features of an object depend only on the weights and on the object's window of pixels. Most windows do not change from one state to the
next, so features are cached by window. For a new window, each layer is computed only at positions whose receptive field overlaps the
window. At all other positions its output equals that of an empty picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trilith.networks.config import Mask, NetConfig
from trilith.networks.inference.attention import ActingBlockTypes, Shapes, attention_shapes
from trilith.networks.inputs.image_moments import MOMENTS, RELATIONS, moments, relations
from trilith.networks.inputs.scene_batch import KINDS, SLOTS_OF_KIND, Floats32, ReplaySchema, SceneBatch
from trilith.networks.kernels.forward import convolve, convolve_windows, link_pairs, mean_rows, pool
from trilith.world.observations.image import COORDINATES, PIXELS
from trilith.world.observations.segments import CHANNELS
from trilith.world.scene import SLOTS, Bools, Ints

LAYERS = (8, 16, 8)
"""Output channels of each convolution."""
HIDDEN = 64
"""Units of the layer after the convolutions."""
PIXEL_FEATURES = 32
"""Number of features of an object that the CNN computes."""
SEEN = PIXEL_FEATURES + MOMENTS
"""Number of all features of an object: 32 of the CNN, then 13 moments."""
MOST = 20_000
"""With more cached windows than this, about 15 MB, the cache is emptied. A search for one placement sees far fewer."""
_SIDE = PIXELS >> len(LAYERS)
"""Height and width of the feature map after the last max pool."""


class ActingPixels(ActingBlockTypes):
    """The network `pixel-attention`, for acting without torch."""

    def __init__(self, schema: ReplaySchema, mask: Mask, net: NetConfig, stops: bool = False) -> None:
        self._blank = net.blank
        super().__init__(schema, mask, net, stops)

    @staticmethod
    def shapes(net: NetConfig, outputs: int) -> Shapes:
        own = {
            "node": (net.width, SEEN),
            "link": (net.pair, 2),
            "looks": (net.pair, SEEN),
            "looked_at": (net.pair, SEEN),
            "relation": (net.pair, RELATIONS),
            "block": (net.decoder, SEEN),
            "supply": (net.decoder, SEEN),
            "cnn.hidden": (HIDDEN, _SIDE * _SIDE * LAYERS[-1]),
            "cnn.out": (PIXEL_FEATURES, HIDDEN),
            "hidden": (net.decoder, net.decoder),
            "out": (outputs, net.decoder),
        }
        shapes = attention_shapes(net, own, without_bias=("link", "looked_at", "relation", "block", "supply"))
        for i, (given, channels) in enumerate(pairwise((CHANNELS, *LAYERS))):
            shapes |= {f"cnn.layers.{i}.weight": (channels, given, 3, 3), f"cnn.layers.{i}.bias": (channels,)}
        return shapes

    def load(self, weights: Mapping[str, NDArray[Any]]) -> None:
        super().load(weights)
        own = [self._weights[f"cnn.layers.{i}.weight"] for i in range(len(LAYERS))]
        self._kernels = tuple(np.ascontiguousarray(each).reshape(*each.shape[:2], -1) for each in own)
        self._biases = tuple(self._weights[f"cnn.layers.{i}.bias"] for i in range(len(LAYERS)))
        self._maps = self._empty_maps()
        self._known: dict[bytes, bytes] = {}
        """Maps the key of each cached window (see `_names`) to its features, as bytes."""

    def _empty_maps(self) -> tuple[tuple[Floats32, ...], tuple[Floats32, ...], Floats32]:
        """Returns the feature maps of an empty picture, as `convolve_windows` takes them: the inputs of all layers, the outputs of all
        convolutions, and the output of the last pool."""
        x = np.concatenate([np.zeros((CHANNELS - 2, PIXELS, PIXELS), np.float32), COORDINATES.transpose(2, 0, 1)])
        inputs, convolved = [], []
        for kernel, bias in zip(self._kernels, self._biases, strict=True):
            inputs.append(np.pad(x, ((0, 0), (1, 1), (1, 1))))
            x, _, _ = convolve(x, 0, 0, inputs[-1], kernel, bias)
            convolved.append(np.pad(x, ((0, 0), (0, 1), (0, 1)), constant_values=-np.inf))
            x, _, _ = pool(x, 0, 0, convolved[-1])
        return tuple(inputs), tuple(convolved), x

    def _features(self, scenes: SceneBatch) -> Floats32:
        """The features (V, 45) of all V objects of the scenes. In each scene the available blocks come first, then the other objects."""
        if self._blank:
            empty = self._seen(self._maps[2][None], np.zeros((1, MOMENTS), np.float32))
            return empty.repeat(int(scenes.available.sum() + scenes.present.sum()), axis=0)
        boxes, first, pixels = scenes.windows(tight=True)
        names = _names(boxes, first, pixels)
        if len(self._known) > MOST:
            self._known = {}
        known = self._known
        new = {name: v for v, name in enumerate(names) if name not in known}
        if new:
            which = np.array(list(new.values()))
            last = convolve_windows(boxes, first, pixels, which, self._kernels, self._biases, *self._maps)
            found = self._seen(last, moments(boxes[which], first[which], pixels))
            known.update(zip(new, map(bytes, found), strict=True))
        return np.frombuffer(b"".join([known[name] for name in names]), np.float32).reshape(-1, SEEN)

    def _seen(self, last: Floats32, where: Floats32) -> Floats32:
        """The features (n, 45) of n objects. The first 32 are computed from `last` (n, 8, 8, 8), the feature maps after the last max pool.
        The other 13 are the moments `where` (n, 13)."""
        hidden = self._linear("cnn.hidden", np.maximum(last, 0).reshape(len(last), -1), rectify=True)
        return np.concatenate([self._linear("cnn.out", hidden, rectify=True), where], axis=1)

    def _encode(self, scenes: SceneBatch) -> Floats32:
        """Encodes B scenes in n + 3 · B rows of `net.decoder` numbers. First come the n objects other than available blocks, each combined
        with an encoding of its whole scene; then, scene by scene, the three kinds of block."""
        features, slot = self._features(scenes), np.concatenate([scenes.available, scenes.present], axis=1).nonzero()[1] < SLOTS
        objects, blocks = features[~slot], np.zeros((*scenes.available.shape, SEEN), np.float32)
        blocks[scenes.available] = features[slot]
        looks, looked_at = self._linear("looks", objects), self._linear("looked_at", objects)
        pairs = self._linear("relation", relations(objects[:, PIXEL_FEATURES:], *scenes.pairs))
        link_pairs(pairs, looks, looked_at, self._linears["link"][0], scenes.touch, scenes.glue, scenes.first, scenes.first_pair)
        references, whole = self._attention(self._linear("node", objects), pairs, scenes)
        supply = mean_rows(blocks.reshape(-1, SEEN), SLOTS * np.arange(len(scenes) + 1))
        references += (whole + self._linear("supply", supply)).repeat(scenes.count, axis=0)
        kinds = blocks[np.arange(len(scenes))[:, None], (scenes.available[:, None] & SLOTS_OF_KIND).argmax(axis=2)]
        return np.concatenate([references, self._linear("block", kinds.reshape(-1, SEEN))])

    def _fill(self, values: Floats32, mask: Bools, scenes: SceneBatch, references: Floats32) -> None:
        scene, kind, ref = np.nonzero(mask.any(axis=-1))
        kinds = references[scenes.first[-1] + KINDS * scene + kind]
        pairs = references[scenes.first[scene] + ref] + kinds
        values[scene, kind, ref] = self._linear("out", self._linear("hidden", np.maximum(pairs, 0), rectify=True))


def _names(boxes: Ints, first: Ints, pixels: Floats32) -> list[bytes]:
    """Returns a cache key for each window, made of its position and its pixels. The arguments are the windows, as `batch_images.windows`
    returns them."""
    corners, colours = boxes.astype(np.uint8).tobytes(), pixels.tobytes()
    ends = (np.append(first, len(pixels)) * pixels[:1].nbytes).tolist()
    return [corners[4 * v : 4 * v + 4] + colours[begin:end] for v, (begin, end) in enumerate(pairwise(ends))]
