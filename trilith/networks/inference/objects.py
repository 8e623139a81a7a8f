"""The network `objects` for acting without torch: arrays and compiled loops. This network needs no more packages than the tasks do.

`ActingObjects` computes the same function as `q.objects.ObjectsNet` and loads its weights; a test compares the two. `pixels.py` has the
counterpart of `q.pixel_attention.PixelAttentionNet`. `attention.py` has the code that both share.
"""

from __future__ import annotations

import numpy as np

from trilith.networks.config import Mask, NetConfig
from trilith.networks.inference.attention import ActingBlockTypes, Shapes, attention_shapes
from trilith.networks.inputs.objects import CLOCK_FEATURES, MAX_WIDTH, NODE_FEATURES, PAIR_FEATURES, SCALE, SHARP, clock, describe
from trilith.networks.inputs.placements import COLUMNS, FIGURES, SUM_SCALE, boxes, check_offsets, locate, look_forward
from trilith.networks.inputs.scene_batch import KIND_WIDTHS, KINDS, Floats32, Records, ReplaySchema, SceneBatch
from trilith.world.scene import Bools, Ints


class ActingObjects(ActingBlockTypes):
    """The network `objects`, for acting without torch."""

    values_states = True

    def __init__(self, schema: ReplaySchema, mask: Mask, net: NetConfig, stops: bool = False) -> None:
        super().__init__(schema, mask, net, stops)
        check_offsets(schema)

    @staticmethod
    def shapes(net: NetConfig, outputs: int) -> Shapes:
        own = {
            "node": (net.width, NODE_FEATURES),
            "pair": (net.pair, PAIR_FEATURES),
            **({"clock": (net.width, CLOCK_FEATURES)} if net.clock else {}),
            "kind": (net.decoder, KINDS + 2),
            "fit": (net.decoder, 2),
            "seen": (net.message, COLUMNS),
            "object": (net.message, net.decoder),
            "edge": (net.decoder, net.decoder),
            "base": (outputs, net.decoder),
            "to_token": (net.token, net.decoder),
            "gather": (net.token, 2 * net.message),
            "hidden": (net.token, net.token),
            "out": (2 * FIGURES, net.token),
            "state_hidden": (net.token, 2 * net.decoder),
            "state_out": (1, net.token),
        }
        return attention_shapes(net, own, without_bias=("clock", "kind", "fit", "object", "to_token"))

    def _encode(self, scenes: SceneBatch) -> Floats32:
        """Returns an array (n, decoder) with a row for each of the n objects, one scene after another. A row combines an object after the
        attention layers with an encoding of its whole scene."""
        objects, lengths, links = describe(scenes)
        near = np.clip(lengths, -2 * MAX_WIDTH, 2 * MAX_WIDTH) / np.float32(SCALE)
        relations = np.concatenate([near, np.tanh(lengths * np.float32(SHARP)), links], axis=1)
        pairs = self._linear("pair", relations, rectify=True)
        tokens = self._linear("node", objects)
        if "clock" in self._linears:
            assert scenes.steps_left is not None, "the schema does not store how many steps are left"
            tokens += self._linear("clock", clock(scenes.steps_left)).repeat(scenes.count, axis=0)
        references, whole = self._attention(tokens, pairs, scenes)
        return references + whole.repeat(scenes.count, axis=0)

    def state_values(self, records: Records) -> Floats32:
        scenes = self.schema.scenes.unpack(records)
        seen = np.maximum(self._encode(scenes), 0)
        sums, most = (each.reduceat(seen, scenes.first[:-1], axis=0) for each in (np.add, np.maximum))
        hidden = self._linear("state_hidden", np.concatenate([sums * np.float32(SUM_SCALE), most], axis=1), rectify=True)
        return self._linear("state_out", hidden)[:, 0]

    def _edges(self, scenes: SceneBatch, references: Floats32, scene: Ints, kind: Ints, ref: Ints) -> Floats32:
        """Returns m encoded edges (m, decoder). Edge i goes from the kind of block `kind[i]` to the object `ref[i]` of the scene
        `scene[i]`. `references` is the result of `_encode`."""
        kinds = np.empty((len(scenes), KINDS, KINDS + 2), np.float32)
        kinds[..., :KINDS], kinds[..., KINDS], kinds[..., KINDS + 1] = np.eye(KINDS), scenes.left / 3, _WIDTHS / SCALE
        of_kind = self._linear("kind", kinds.reshape(-1, KINDS + 2))
        more = (_WIDTHS[kind] - np.minimum(scenes.size[scene, ref, 0], np.float32(MAX_WIDTH))) / np.float32(SCALE)
        pairs = references[scenes.first[scene] + ref] + of_kind[scene * KINDS + kind]
        pairs += self._linear("fit", np.stack([more, np.abs(more)], axis=-1))
        return self._linear("edge", np.maximum(pairs, 0), rectify=True)

    def _fill(self, values: Floats32, mask: Bools, scenes: SceneBatch, references: Floats32) -> None:
        allowed = mask[..., ::2]
        scene, kind, ref = np.nonzero(allowed.any(axis=-1))
        edge, offset = np.nonzero(allowed[scene, kind, ref])
        placed = locate(scenes, self.schema.offsets, _WIDTHS, scene[edge], kind[edge], ref[edge], offset.astype(np.float32))
        first = np.searchsorted(scene[edge], np.arange(len(scenes) + 1))
        objects = self._linear("object", references) + self._weights["seen.bias"]
        seen = np.empty((len(edge), 2 * len(self._weights["seen.bias"])), np.float32)
        look_forward(first, *placed, scenes.first, boxes(scenes), objects, self._weights["seen.weight"], seen)
        edges = self._edges(scenes, references, scene, kind, ref)
        tokens = self._linear("gather", seen) + self._linear("to_token", edges)[edge]
        figures = self._linear("out", self._linear("hidden", np.maximum(tokens, 0), rectify=True)).reshape(-1, FIGURES, 2)
        base = self._linear("base", edges).reshape(len(edges), -1, 2)[edge, offset]
        values.reshape(-1, 2)[np.flatnonzero(allowed)] = base + figures[:, 0] + figures[:, 1]


_WIDTHS = np.array(KIND_WIDTHS, np.float32)
