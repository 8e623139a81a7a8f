"""Q-values by attention over the objects of a scene: ours, several times cheaper than the paper's graph network.

Objects are tokens. How two of them lie to each other biases the attention between them and travels along with what is
attended to. Identical available blocks are merged into kinds, which enter as how many are left; a decoder then values
each pair of a kind and a reference object.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trilith.agents.config import Mask
from trilith.nets.batch import KIND_OF_SLOT, KIND_WIDTHS, KINDS, Batch, Layout
from trilith.nets.qnet import QNet, first_slot, receiver_of, split_output, unravel
from trilith.scene import SLOTS, Bools, Role

_SCALE = 4.0
"""Lengths are divided by this, so that features are about 1."""
_SHARP = 4.0
"""Relative lengths also come as tanh(4 · length), which tells touching from nearly touching."""
_MAX_WIDTH = 7.0
"""The floor is 28 wide; a feature of 7 says as much."""
_LENGTHS = 8
_PAIR_FEATURES = 2 * _LENGTHS + 2
_NODE_FEATURES = 11 + len(Role)


class AttentionNet(QNet):
    """See the module. Knows no edges between objects alone, so the mask `none` is not for it."""

    def __init__(
        self, layout: Layout, mask: Mask = "legal", width: int = 64, layers: int = 3, heads: int = 4, pair: int = 32, decoder: int = 128
    ) -> None:
        super().__init__(layout, mask)
        if mask == "none":
            raise ValueError("the attention network values only edges from available blocks: choose mask edges or legal, or network graph")
        self.node = nn.Linear(_NODE_FEATURES + KINDS, width)
        self.pair = nn.Linear(_PAIR_FEATURES, pair)
        self.bias = nn.Linear(pair, layers * heads)
        self.heads = heads
        self.layers = nn.ModuleList(_Layer(width, heads, pair) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.reference = nn.Linear(width, decoder)
        self.pooled = nn.Linear(width, decoder, bias=False)
        self.kind = nn.Linear(KINDS + 2, decoder, bias=False)
        self.fit = nn.Linear(2, decoder, bias=False)
        self.hidden = nn.Linear(decoder, decoder)
        self.out = nn.Linear(decoder, self.outputs)
        nn.init.zeros_(self.out.bias)
        self.register_buffer("kind_widths", torch.tensor(KIND_WIDTHS), persistent=False)
        self.register_buffer("kind_of_slot", torch.from_numpy(KIND_OF_SLOT), persistent=False)
        self.kind_widths: Tensor
        self.kind_of_slot: Tensor

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """(n, decoder): what the decoder needs to know of each object, that of the whole scene included; and where objects are.

        The n objects of all scenes are one row each, so that nothing is computed for padding but attention itself. Also
        returns the place (n,) of each among the B · R of the padded batch, and the row (B · R,) of each of these places.
        """
        b, r = batch.present.shape
        place = batch.present.flatten().nonzero()[:, 0]
        row = place.new_zeros(b * r).index_copy_(0, place, torch.arange(len(place)))
        nodes, relations = features(batch)
        tokens = self.node(nodes.flatten(0, 1).index_select(0, place))
        pairs = F.relu(self.pair(relations))
        absent = torch.zeros(batch.present.shape).masked_fill_(~batch.present, -torch.inf)
        biases = (self.bias(pairs) + absent[:, None, :, None]).permute(3, 0, 1, 2)  # (layers · heads, B, R, R)
        for layer, bias in zip(self.layers, biases.split(self.heads), strict=True):
            tokens = layer(tokens, pairs, bias.transpose(0, 1), place, row)
        tokens = self.norm(tokens)
        scene = place // r
        pooled = tokens.new_zeros(b, tokens.shape[1]).index_add(0, scene, tokens) / batch.present.sum(dim=1, keepdim=True)
        return self.reference(tokens) + self.pooled(pooled).index_select(0, scene), place, row

    def _kinds(self, batch: Batch) -> Tensor:
        """(B, 3, decoder): what the decoder needs to know of each kind of block."""
        left = batch.left[..., None] / 3
        widths = (self.kind_widths / _SCALE)[None, :, None].expand(len(batch), -1, -1)
        return self.kind(torch.cat([torch.eye(KINDS).expand(len(batch), -1, -1), left, widths], dim=-1))

    def _decode(self, references: Tensor, kinds: Tensor, block_width: Tensor, reference_width: Tensor) -> Tensor:
        """(..., outputs): values of pairs, from what is known of both (..., decoder) and how their widths (...) compare."""
        more = (block_width - reference_width.clamp(max=_MAX_WIDTH)) / _SCALE
        pairs = references + kinds + self.fit(torch.stack([more, more.abs()], dim=-1))
        return self.out(F.relu(self.hidden(F.relu(pairs))))

    def q(self, batch: Batch) -> Tensor:
        b, r = batch.present.shape
        references, place, _ = self.encode(batch)
        kinds = self._kinds(batch).index_select(0, place // r)
        width = batch.size[..., 0].flatten().index_select(0, place)
        values = self._decode(references[:, None], kinds, self.kind_widths, width[:, None])
        return values.new_zeros(b * r, KINDS, self.outputs).index_copy(0, place, values).view(b, r, KINDS, -1).transpose(1, 2)

    def q_at(self, batch: Batch, actions: Tensor) -> Tensor:
        each, r = torch.arange(len(batch)), batch.present.shape[1]
        kind, ref = self.kind_of_slot[actions[:, 0]], actions[:, 1] - SLOTS
        references, _, row = self.encode(batch)
        chosen = references.index_select(0, row[each * r + ref])
        values = self._decode(chosen, self._kinds(batch)[each, kind], self.kind_widths[kind], batch.size[each, ref, 0])
        return values.gather(1, (2 * actions[:, 2] + actions[:, 3])[:, None])[:, 0]

    def mask(self, batch: Batch) -> Tensor:
        edges = (batch.left > 0)[:, :, None, None] & batch.present[:, None, :, None]
        if self.mask_rule == "legal":
            assert batch.legal is not None
            return (edges & batch.legal).repeat_interleave(2, dim=-1)
        return edges.expand(-1, -1, -1, self.outputs)

    def actions(self, batch: Batch, flat: Tensor) -> Tensor:
        kind, ref, output = unravel(flat, (KINDS, batch.present.shape[1], self.outputs))
        return torch.stack([first_slot(batch, kind), receiver_of(ref), *split_output(output)], dim=1)

    def action(self, available: Bools, sender: int, receiver: int, output: int) -> tuple[int, int, int, int]:
        return int(np.argmax(available & (sender == KIND_OF_SLOT))), receiver + SLOTS, output // 2, output % 2

    def flat(self, batch: Batch, actions: Tensor) -> Tensor:
        pair = self.kind_of_slot[actions[:, 0]] * batch.present.shape[1] + actions[:, 1] - SLOTS
        return pair * self.outputs + 2 * actions[:, 2] + actions[:, 3]


class _Layer(nn.Module):
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

    def forward(self, tokens: Tensor, pairs: Tensor, bias: Tensor, place: Tensor, row: Tensor) -> Tensor:
        """(n, width) from the same, `pairs` (B, R, R, pair), and `bias` (B, heads, R, R): -inf towards padding.

        `place` (n,) and `row` (B · R,) lead from packed to padded and back; what padding itself attends to is dropped.
        """
        b, r = pairs.shape[:2]
        padded = self.qkv(self.norm(tokens)).index_select(0, row)
        q, k, v = padded.view(b, r, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = torch.add(bias, q @ k.transpose(2, 3), alpha=q.shape[-1] ** -0.5)
        weights = scores.softmax(dim=-1)
        seen = (weights @ v).transpose(1, 2).reshape(b * r, -1)
        beside = (weights.transpose(1, 2) @ pairs).reshape(b * r, -1)
        tokens = tokens + self.gather(torch.cat([seen, beside], dim=-1).index_select(0, place))
        return tokens + self.down(F.relu(self.up(self.norm2(tokens))))


def features(batch: Batch) -> tuple[Tensor, Tensor]:
    """`node_features` and `pair_features`, computed once a batch: the learning and the target network both ask for them."""
    if "features" not in batch.memo:
        batch.memo["features"] = node_features(batch), pair_features(batch)
    nodes, pairs = batch.memo["features"]
    return nodes, pairs


def node_features(batch: Batch) -> Tensor:
    """(B, R, 19): each object by itself, and how many blocks of each kind are left."""
    x, y, angle = batch.pose.unbind(-1)
    w = batch.size[..., 0].clamp(max=_MAX_WIDTH)
    columns = [x / 7, y / _SCALE, angle.cos() - 1, angle.sin(), w / _SCALE, batch.size[..., 1], (x - w / 2) / 7, (x + w / 2) / 7]
    columns += [batch.sticky, batch.velocity[..., :2].square().sum(-1).clamp(max=1), batch.velocity[..., 2].clamp(-1, 1)]
    role = F.one_hot(batch.role, len(Role)).to(x.dtype)
    left = (batch.left / 3)[:, None].expand(-1, x.shape[1], -1)
    return torch.cat([torch.stack(columns, dim=-1), role, left], dim=-1)


def pair_features(batch: Batch) -> Tensor:
    """(B, R, R, 18): how each two objects lie to each other; symmetric things once, distances also sharpened."""
    x, y, angle = batch.pose.unbind(-1)
    cos, sin = angle.cos().abs(), angle.sin().abs()
    w, h = batch.size.unbind(-1)
    across, up = (w * cos + h * sin) / 2, (w * sin + h * cos) / 2
    left, right, bottom, top = x - across, x + across, y - up, y + up

    def between(a: Tensor, b: Tensor) -> Tensor:
        return a[:, :, None] - b[:, None, :]

    lengths = torch.stack(
        [
            between(x, x),
            between(y, y),
            between(left, left),
            between(right, right),
            between(left, right),
            between(right, left),
            between(bottom, top),
            between(top, bottom),
        ],
        dim=-1,
    )
    links = torch.stack([batch.touch, batch.glue], dim=-1)
    return torch.cat([lengths.clamp(-2 * _MAX_WIDTH, 2 * _MAX_WIDTH) / _SCALE, (lengths * _SHARP).tanh(), links], dim=-1)
