"""Q-values by attention over the objects of a scene: ours, several times cheaper than the paper's graph network.

Objects are tokens. How two of them lie to each other biases the attention between them and travels along with what is
attended to. Identical available blocks are merged into kinds, which enter as how many are left; a decoder then values
each pair of a kind and a reference object.

This form learns. `acting.ActingAttention` is the same function for agents that only act, without torch: what changes here
changes there.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trilith.nets.acting_kinds import attention_action, check_attention
from trilith.nets.attend import Rows, attend
from trilith.nets.batch import KIND_WIDTHS, KINDS, Batch, Floats32, Layout
from trilith.nets.config import Mask
from trilith.nets.describe import CLOCK_FEATURES, MAX_WIDTH, NODE_FEATURES, PAIR_FEATURES, SCALE, SHARP, clock, describe
from trilith.nets.forecast import NO_MORE, Told, forecast
from trilith.nets.qnet import QNet, first_slot, receiver_of, split_output
from trilith.world.scene import SLOTS, Bools


class KindQNet(QNet):
    """Values of placing a kind of block by an object, (B, 3, R, outputs). Knows no edges between objects alone: the mask `none` is not
    for it."""

    @abstractmethod
    def encode(self, batch: Batch) -> Tensor:
        """What `_decode` needs to know of the scenes, one row an object at least; scenes one after another."""

    @abstractmethod
    def _decode(self, batch: Batch, references: Tensor, scene: Tensor, kind: Tensor, ref: Tensor) -> Tensor:
        """(m, outputs): values of placing a kind (m,) by an object (m,) of a scene (m,), given what `encode` says of all."""

    def _every(self, batch: Batch, references: Tensor, whole: int) -> Tensor:
        """(whole, 3, R, outputs): the values of the first scenes, decoded only where there is something to choose."""
        choices = self.mask(batch.host[:whole]).any(dim=-1)
        values = self._decode(batch, references, *batch.send(choices.nonzero()).unbind(1))
        place = batch.send(choices.flatten().nonzero()[:, 0])
        return values.new_zeros(choices.numel(), self.outputs).index_copy(0, place, values).view(*choices.shape, -1)

    def q(self, batch: Batch) -> Tensor:
        return self._every(batch, self.encode(batch), len(batch))

    def _at(self, batch: Batch, references: Tensor, actions: Tensor, scenes: Tensor | None) -> Tensor:
        """(m,): the values of actions (m, 4) in scenes (m,) of the batch; None: one in each."""
        kind, ref = self.kind_of_slot[actions[:, 0]], actions[:, 1] - SLOTS
        scenes = torch.arange(len(batch), device=batch.device) if scenes is None else scenes
        values = self._decode(batch, references, scenes, kind, ref)
        return values.gather(1, (2 * actions[:, 2] + actions[:, 3])[:, None])[:, 0]

    def q_at(self, batch: Batch, actions: Tensor, scenes: Tensor | None = None) -> Tensor:
        return self._at(batch, self.encode(batch), actions, scenes)

    def q_both(self, batch: Batch, actions: Tensor, whole: int, scenes: Tensor | None = None) -> tuple[Tensor, Tensor]:
        references = self.encode(batch)
        return self._every(batch, references, whole), self._at(batch, references, actions, scenes)

    def mask(self, batch: Batch) -> Tensor:
        edges = (batch.left > 0)[:, :, None, None] & batch.present[:, None, :, None]
        if self.mask_rule == "legal":
            assert batch.legal is not None
            return (edges & batch.legal).repeat_interleave(2, dim=-1)
        return edges.expand(-1, -1, -1, self.outputs)

    def actions(self, batch: Batch, flat: Tensor) -> Tensor:
        kind, ref, output = torch.unravel_index(flat, (KINDS, batch.present.shape[1], self.outputs))
        return torch.stack([first_slot(batch, kind), receiver_of(ref), *split_output(output)], dim=1)

    def action(self, available: Bools, sender: int, receiver: int, output: int) -> tuple[int, int, int, int]:
        return attention_action(available, sender, receiver, output)

    def flat(self, batch: Batch, actions: Tensor) -> Tensor:
        pair = self.kind_of_slot[actions[:, 0]] * batch.present.shape[1] + actions[:, 1] - SLOTS
        return pair * self.outputs + 2 * actions[:, 2] + actions[:, 3]


class AttentionNet(KindQNet):
    """See the module."""

    def __init__(
        self,
        layout: Layout,
        mask: Mask = "legal",
        width: int = 64,
        layers: int = 3,
        heads: int = 4,
        pair: int = 32,
        decoder: int = 128,
        place: int = 0,
        clock: bool = False,
        told: Told = NO_MORE,
    ) -> None:
        super().__init__(layout, mask)
        check_attention(layout, mask, place)
        self.told = told
        self.node = nn.Linear(NODE_FEATURES, width)
        self.pair = nn.Linear(PAIR_FEATURES, pair)
        self.bias = nn.Linear(pair, layers * heads, bias=False)
        self.heads = heads
        self.layers = nn.ModuleList(AttentionLayer(width, heads, pair) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.reference = nn.Linear(width, decoder)
        self.pooled = nn.Linear(width, decoder, bias=False)
        self.kind = nn.Linear(KINDS + 2, decoder, bias=False)
        self.fit = nn.Linear(2, decoder, bias=False)
        self.hidden = nn.Linear(decoder, decoder)
        self.out = nn.Linear(decoder, self.outputs)
        nn.init.zeros_(self.out.bias)
        self.place = nn.Linear(told.features, place) if place else None
        self.weigh = nn.Linear(decoder, 2 * place, bias=False) if place else None
        self.clock = nn.Linear(CLOCK_FEATURES, width, bias=False) if clock else None
        self.register_buffer("kind_widths", torch.tensor(KIND_WIDTHS), persistent=False)
        self.kind_widths: Tensor

    def encode(self, batch: Batch) -> Tensor:
        """(n, decoder): what the decoder needs to know of each object, that of the whole scene included; scenes one after another."""
        tokens = tokens_of(self, batch, None if self.clock is None else self.clock(_clock(batch)))
        pooled = tokens.new_zeros(len(batch), tokens.shape[1]).index_add(0, batch.scene, tokens) / batch.count[:, None]
        return self.reference(tokens) + self.pooled(pooled).index_select(0, batch.scene)

    def _kinds(self, batch: Batch) -> Tensor:
        """(B, 3, decoder): what the decoder needs to know of each kind of block."""
        left = batch.left[..., None] / 3
        widths = (self.kind_widths / SCALE)[None, :, None].expand(len(batch), -1, -1)
        which = torch.eye(KINDS, device=left.device).expand(len(batch), -1, -1)
        return self.kind(torch.cat([which, left, widths], dim=-1))

    def _decode(self, batch: Batch, references: Tensor, scene: Tensor, kind: Tensor, ref: Tensor) -> Tensor:
        block, base = self.kind_widths[kind], batch.size[scene, ref, 0]
        more = (block - base.clamp(max=MAX_WIDTH)) / SCALE
        pairs = references.index_select(0, batch.start[scene] + ref) + self._kinds(batch)[scene, kind]
        pairs = pairs + self.fit(torch.stack([more, more.abs()], dim=-1))
        hidden = F.relu(self.hidden(F.relu(pairs)))
        values: Tensor = self.out(hidden)
        if self.place is None or self.weigh is None:
            return values
        # What is known of each single place is weighed by what the decoder makes of block and object, for either kind of glue.
        given = batch.arrays, scene.cpu().numpy(), kind.cpu().numpy(), ref.cpu().numpy()
        found = forecast(self.layout, *given, self.told)
        places = F.relu(self.place(_sent(batch, found)))
        weights = self.weigh(hidden).view(len(hidden), 2, -1)
        return values + torch.bmm(places, weights.transpose(1, 2)).flatten(1)


def tokens_of(net: Any, batch: Batch, scenes: Tensor | None = None) -> Tensor:
    """(n, width): the objects of a batch, scenes one after another, by the layers of a network that has them as `AttentionNet` does.

    `scenes` (B, width) is what all objects of a scene are told besides.
    """
    objects, relations = _described(batch)
    tokens = net.node(objects)
    if scenes is not None:
        tokens = tokens + scenes.index_select(0, batch.scene)
    pairs = F.relu(net.pair(relations))
    for layer, weight in zip(net.layers, net.bias.weight.split(net.heads), strict=True):
        tokens = layer(tokens, pairs, weight, batch)
    normed: Tensor = net.norm(tokens)
    return normed


def _clock(batch: Batch) -> Tensor:
    """(B, 3): what `clock` says of how many steps are left."""
    assert batch.arrays.steps_left is not None, "the layout does not store how many steps are left"
    return _sent(batch, clock(batch.arrays.steps_left))


def _described(batch: Batch) -> tuple[Tensor, Tensor]:
    """(n, 19) and (p, 18): what `describe` says of the objects and pairs of a batch.

    Computed once, in main memory: the learning and the target network both ask for it.
    """
    if "described" not in batch.memo:
        nodes, lengths, links = (_sent(batch, each) for each in describe(batch.arrays))
        near = lengths.clamp(-2 * MAX_WIDTH, 2 * MAX_WIDTH) / SCALE
        batch.memo["described"] = nodes, torch.cat([near, (lengths * SHARP).tanh(), links], dim=1)
    described: tuple[Tensor, Tensor] = batch.memo["described"]
    return described


def _sent(batch: Batch, array: Floats32) -> Tensor:
    """An array as a tensor where the batch is, in memory of torch's own: where that begins changes the last bits of sums of products."""
    return batch.send(torch.from_numpy(array).clone())


class AttentionLayer(nn.Module):
    """Attention and a small MLP, each behind a norm and beside a residual."""

    def __init__(self, width: int, heads: int, pair: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.gather = nn.Linear(width + heads * pair, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, tokens: Tensor, pairs: Tensor, weight: Tensor, batch: Batch | Rows) -> Tensor:
        """(n, width) from the same, `pairs` (p, pair), and what a pair adds to scores by, (heads, pair)."""
        qkv = self.qkv(self.norm(tokens)).view(len(tokens), 3, self.heads, -1)
        tokens = tokens + self.gather(attend(qkv, pairs, weight, batch))
        return tokens + self.down(F.relu(self.up(self.norm2(tokens))))
