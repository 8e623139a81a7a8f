"""Our network `pixel-attention`: Q-values by attention over segmented images. Of the shape and position of an object, the network sees only
pixels.

The attention layers come from `layers/attention.py`, but do not get the columns of `inputs/objects.py`. Instead, the inputs of an object
and of a pair of objects come from the pictures: features that a small CNN computes, and moments of the pixels (`inputs/image_moments.py`).
A kind of block is represented by the picture of its first available block.

This torch module is for learning. `inference.pixels.ActingPixels` computes the same function without torch, for acting. Change both
together.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trilith.networks.config import Mask, NetConfig
from trilith.networks.inference.attention import kind_mask
from trilith.networks.inference.pixels import SEEN
from trilith.networks.inputs.image_moments import RELATIONS
from trilith.networks.inputs.scene_batch import KINDS, SLOTS_OF_KIND, ReplaySchema, SceneBatch, once_per_batch
from trilith.networks.layers.attention import AttentionTrunk, scene_mean
from trilith.networks.layers.object_cnn import ObjectCNN
from trilith.networks.q.base import DEFAULT, BlockTypeQNetwork
from trilith.networks.q.graph import edge_codes
from trilith.world.scene import SLOTS


class PixelAttentionNet(BlockTypeQNetwork, AttentionTrunk):
    """The network `pixel-attention`. It sees the pixels of each object. Two further inputs say which objects are available blocks, and
    which pairs of the other objects touch or are glued.

    An agent with this network also gets two hints from its list of actions. The list contains only the first available block of each kind,
    and so reveals which blocks are interchangeable. With the mask `legal`, the list also reveals where blocks fit, and so where solid
    objects are. The values of actions do not depend on these hints.
    """

    def __init__(self, schema: ReplaySchema, mask: Mask = "legal", net: NetConfig = DEFAULT) -> None:
        super().__init__(schema, mask)
        width, pair, decoder = net.width, net.pair, net.decoder
        self.cnn = ObjectCNN(net.blank)
        self.node = nn.Linear(SEEN, width)
        self.looks = nn.Linear(SEEN, pair)
        self.looked_at = nn.Linear(SEEN, pair, bias=False)
        self.relation = nn.Linear(RELATIONS, pair, bias=False)
        self.link = nn.Linear(2, pair, bias=False)
        self.add_layers(width, net.layers, net.heads, pair)
        self.reference = nn.Linear(width, decoder)
        self.pooled = nn.Linear(width, decoder, bias=False)
        self.block = nn.Linear(SEEN, decoder, bias=False)
        self.supply = nn.Linear(SEEN, decoder, bias=False)
        self.hidden = nn.Linear(decoder, decoder)
        self.out = nn.Linear(decoder, self.outputs)
        nn.init.zeros_(self.out.bias)
        self.codes = edge_codes()

    def encode(self, batch: SceneBatch) -> Tensor:
        """Encodes B scenes in n + 3 · B rows of `net.decoder` numbers. First come the n objects other than available blocks, each combined
        with an encoding of its whole scene; then, scene by scene, the three kinds of block."""
        blocks, scene, kinds, others, one, other, code = _rows(batch)
        seen = self.cnn.segments(batch)
        features = torch.cat([self.cnn(batch), seen.moments], dim=1)
        objects, supply = features.index_select(0, others), features.index_select(0, blocks)
        pairs = self.looks(objects).index_select(0, one) + self.looked_at(objects).index_select(0, other)
        pairs = pairs + self.relation(seen.relations) + self.link(self.codes).index_select(0, code)
        tokens = self.attention(self.node(objects), pairs, batch)
        left = supply.new_zeros(len(batch), SEEN).index_add(0, scene, supply) / SLOTS
        whole = self.pooled(scene_mean(tokens, batch)) + self.supply(left)
        references = self.reference(tokens) + whole.index_select(0, batch.tensors.scene)
        return torch.cat([references, self.block(features.index_select(0, kinds))])

    def q(self, batch: SceneBatch) -> Tensor:
        choices = kind_mask(batch, self.mask_rule, self.outputs).any(axis=-1)  # values are decoded only where an action may be chosen
        values = self._decode(batch, *map(batch.send, np.nonzero(choices)))
        place = batch.send(np.flatnonzero(choices))
        return values.new_zeros(choices.size, self.outputs).index_copy(0, place, values).view(*choices.shape, -1)

    def q_at(self, batch: SceneBatch, index: Tensor, scenes: Tensor | None = None) -> Tensor:
        slot, node, _, _ = self.schema.parts(index)
        scenes = torch.arange(len(batch), device=index.device) if scenes is None else scenes
        values = self._decode(batch, scenes, self.kind_of_slot[slot], node - SLOTS)
        return values.gather(1, (index % self.outputs)[:, None])[:, 0]

    def _decode(self, batch: SceneBatch, scene: Tensor, kind: Tensor, ref: Tensor) -> Tensor:
        """The values (m, outputs) of the actions of m edges. Edge i places a block of the kind `kind[i]` at the object `ref[i]` of the
        scene `scene[i]`."""
        references = self.encode(batch)
        first = len(references) - KINDS * len(batch)
        pairs = references.index_select(0, batch.tensors.start[scene] + ref) + references.index_select(0, first + KINDS * scene + kind)
        return self.out(F.relu(self.hidden(F.relu(pairs))))


@once_per_batch
def _rows(batch: SceneBatch) -> tuple[Tensor, ...]:
    """Returns seven tensors of indices. They refer to the rows of a list of all objects of a batch, in which the available blocks of each
    scene come first, then its other objects.

    The first two (m,) have the row and the scene of each of m available blocks. The third (3 · B,) has, for each of B scenes, the row of
    the first available block of each kind, or an arbitrary row if there is none. The fourth (n,) has the rows of the n other objects. The
    last three (p,) describe the p pairs of other objects in the same scene: the first object and the second, as numbers from 0 to n - 1,
    and the number touching + 2 · glued.
    """
    row = np.maximum(batch.nodes.cumsum().reshape(batch.nodes.shape) - 1, 0)
    first = (batch.available[:, None] & SLOTS_OF_KIND).argmax(axis=2)  # (B, 3): slots
    found = (
        row[:, :SLOTS][batch.available],
        batch.available.nonzero()[0],
        np.take_along_axis(row, first, axis=1).ravel(),
        row[:, SLOTS:][batch.present],
        *batch.pairs,
        (batch.touch + 2 * batch.glue).ravel()[batch.pair_place].astype(np.int64),
    )
    return tuple(batch.send(each) for each in found)
