"""Networks in the form that acts: arrays and compiled loops, no torch, and no more to install than the tasks need.

`ActingAttention` is the function of `attention.AttentionNet`, whose weights it takes; a test compares the two. That of
`pixel_attention.PixelAttentionNet` is in `acting_pixels.py`, what both share in `acting_kinds.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trilith.nets.acting_kinds import ActingKinds, Shapes, attention_shapes, check_attention
from trilith.nets.acting_pixels import ActingPixels
from trilith.nets.batch import KIND_WIDTHS, KINDS, Arrays, Floats32, Layout, Records
from trilith.nets.config import Mask, NetConfig
from trilith.nets.describe import CLOCK_FEATURES, MAX_WIDTH, NODE_FEATURES, PAIR_FEATURES, SCALE, SHARP, clock, describe
from trilith.nets.forecast import Told, forecast
from trilith.nets.loops import products
from trilith.world.scene import Bools


class Valuing(Protocol):
    """All that an agent needs of a network of Q-values."""

    @property
    def layout(self) -> Layout:
        """How the states are stored that it is shown."""
        ...

    @property
    def mask_rule(self) -> Mask:
        """Which actions may be chosen."""
        ...

    @property
    def outputs(self) -> int:
        """Actions of an edge."""
        ...

    @property
    def stops(self) -> bool:
        """Whether its agent ends the episode where all values are below 0."""
        ...

    def values(self, records: Records) -> tuple[Floats32, Bools]:
        """(B, S, M, outputs), twice: the values of all actions of senders and receivers, and which of them may be chosen."""
        ...

    def action(self, available: Bools, sender: int, receiver: int, output: int) -> tuple[int, int, int, int]:
        """The action (sender, receiver, offset, sticky) of one place in the values of a scene with these slots `available` (7,)."""
        ...

    def weights(self) -> dict[str, Floats32]:
        """A copy of the parameters, by their names."""
        ...

    def load(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Takes parameters by their names. Raises ValueError in one line, and changes nothing, if they are not its own."""
        ...


class ActingAttention(ActingKinds):
    """The attention network."""

    def __init__(self, layout: Layout, mask: Mask, net: NetConfig, stops: bool = False) -> None:
        check_attention(layout, mask, net.place)
        self.told = Told.of(net)
        super().__init__(layout, mask, net, stops)

    @staticmethod
    def shapes(net: NetConfig, outputs: int) -> Shapes:
        own = {
            "node": (net.width, NODE_FEATURES),
            "pair": (net.pair, PAIR_FEATURES),
            "kind": (net.decoder, KINDS + 2),
            "fit": (net.decoder, 2),
        }
        if net.place:
            own |= {"place": (net.place, Told.of(net).features), "weigh": (2 * net.place, net.decoder)}
        if net.clock:
            own |= {"clock": (net.width, CLOCK_FEATURES)}
        return attention_shapes(net, outputs, own, without_bias=("kind", "fit", "weigh", "clock"))

    def _encode(self, scenes: Arrays) -> Floats32:
        """(n, decoder): what the decoder needs to know of each object, that of the whole scene included; scenes one after another."""
        objects, lengths, links = describe(scenes)
        near = np.clip(lengths, -2 * MAX_WIDTH, 2 * MAX_WIDTH) / np.float32(SCALE)
        relations = np.concatenate([near, np.tanh(lengths * np.float32(SHARP)), links], axis=1)
        pairs = self._linear("pair", relations, rectify=True)
        tokens = self._linear("node", objects)
        if "clock" in self._linears:
            assert scenes.steps_left is not None, "the layout does not store how many steps are left"
            tokens += self._linear("clock", clock(scenes.steps_left)).repeat(np.diff(scenes.first), axis=0)
        references, whole = self._attention(tokens, pairs, scenes)
        return references + whole.repeat(np.diff(scenes.first), axis=0)

    def _decode(self, scenes: Arrays, references: Floats32, scene: NDArray, kind: NDArray, ref: NDArray) -> Floats32:
        kinds = np.empty((len(scenes), KINDS, KINDS + 2), np.float32)
        kinds[..., :KINDS], kinds[..., KINDS], kinds[..., KINDS + 1] = np.eye(KINDS), scenes.left / 3, _WIDTHS / SCALE
        of_kind = self._linear("kind", kinds.reshape(-1, KINDS + 2))
        more = (_WIDTHS[kind] - np.minimum(scenes.size[scene, ref, 0], np.float32(MAX_WIDTH))) / np.float32(SCALE)
        pairs = references[scenes.first[scene] + ref] + of_kind[scene * KINDS + kind]
        pairs += self._linear("fit", np.stack([more, np.abs(more)], axis=-1))
        hidden = self._linear("hidden", np.maximum(pairs, 0), rectify=True)
        values = self._linear("out", hidden)
        if "place" not in self._linears:
            return values
        found = forecast(self.layout, scenes, scene, kind, ref, self.told)
        places = self._linear("place", found.reshape(-1, self.told.features), rectify=True)
        return values + products(places.reshape(len(hidden), self.layout.offsets, -1), self._linear("weigh", hidden))


ACTING: dict[str, type[ActingKinds]] = {"attention": ActingAttention, "pixel-attention": ActingPixels}
"""Networks that act without torch, by their names."""

_WIDTHS = np.array(KIND_WIDTHS, np.float32)
