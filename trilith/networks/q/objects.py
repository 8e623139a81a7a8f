"""Q-values of placements, from objects alone: ours, and the network of `objects`.

Objects are tokens of a small transformer (`layers/attention.py`). Every placement that may be chosen is a token as well: it sees all
objects of its scene by differences of coordinates (`inputs/placements.py`), and what the transformer says of each. Three figures
are learned of it:

    Q(s, a) = reward(s, a) + later(s, a),    p_end(s, a) = sigmoid(end(s, a))

`reward` is that of the placement alone and `end` whether the episode ends with it, both learned also from placements that were only
simulated; `later` is what the episode goes on to earn. A fourth figure is of the scene as a whole: V(s), the value of the state, which
needs no placement and so costs little. It is what values are learned from.

This form learns. `inference.objects.ActingObjects` is the same function for agents that only act, without torch: what changes here
changes there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from trilith.networks.config import Mask
from trilith.networks.inference.attention import check_attention
from trilith.networks.inputs.objects import CLOCK_FEATURES, MAX_WIDTH, NODE_FEATURES, PAIR_FEATURES, SCALE
from trilith.networks.inputs.placements import (
    COLUMNS,
    FIGURES,
    SUM_SCALE,
    Placements,
    boxes,
    check_offsets,
    locate,
    look_backward,
    look_forward,
    look_plain,
)
from trilith.networks.inputs.scene_batch import KIND_WIDTHS, KINDS, Batch, Layout
from trilith.networks.layers.attention import AttentionLayer, KindQNet, clock_of, tokens_of
from trilith.networks.q.base import Outcomes
from trilith.world.scene import SLOTS


class ObjectsNet(KindQNet):
    """See the module."""

    values_states = True

    def __init__(
        self,
        layout: Layout,
        mask: Mask = "legal",
        width: int = 64,
        layers: int = 3,
        heads: int = 4,
        pair: int = 32,
        decoder: int = 128,
        message: int = 32,
        token: int = 64,
        clock: bool = False,
    ) -> None:
        super().__init__(layout, mask)
        check_attention(layout, mask)
        check_offsets(layout)
        self.node = nn.Linear(NODE_FEATURES, width)
        self.pair = nn.Linear(PAIR_FEATURES, pair)
        self.bias = nn.Linear(pair, layers * heads, bias=False)
        self.heads = heads
        self.layers = nn.ModuleList(AttentionLayer(width, heads, pair) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.clock = nn.Linear(CLOCK_FEATURES, width, bias=False) if clock else None
        self.reference = nn.Linear(width, decoder)
        self.pooled = nn.Linear(width, decoder, bias=False)
        self.kind = nn.Linear(KINDS + 2, decoder, bias=False)
        self.fit = nn.Linear(2, decoder, bias=False)
        self.seen = nn.Linear(COLUMNS, message)
        self.object = nn.Linear(decoder, message, bias=False)
        self.edge = nn.Linear(decoder, decoder)
        self.base = nn.Linear(decoder, self.outputs)
        self.to_token = nn.Linear(decoder, token, bias=False)
        self.gather = nn.Linear(2 * message, token)
        self.hidden = nn.Linear(token, token)
        self.out = nn.Linear(token, 2 * FIGURES)
        self.state_hidden = nn.Linear(2 * decoder, token)
        self.state_out = nn.Linear(token, 1)
        nn.init.zeros_(self.base.bias)
        nn.init.zeros_(self.out.bias)
        nn.init.zeros_(self.state_out.bias)
        self.register_buffer("kind_widths", torch.tensor(KIND_WIDTHS), persistent=False)
        self.kind_widths: Tensor

    def encode(self, batch: Batch) -> Tensor:
        """(n, decoder): each object after the transformer, the whole scene included; scenes one after another."""
        tokens = tokens_of(self, batch, None if self.clock is None else self.clock(clock_of(batch)))
        pooled = tokens.new_zeros(len(batch), tokens.shape[1]).index_add(0, batch.scene, tokens) / batch.count[:, None]
        return self.reference(tokens) + self.pooled(pooled).index_select(0, batch.scene)

    def _states(self, batch: Batch, references: Tensor) -> Tensor:
        """(B,): the value of each scene, given its objects after the transformer."""
        seen = F.relu(references)
        sums = seen.new_zeros(len(batch), seen.shape[1]).index_add(0, batch.scene, seen)
        most = torch.zeros_like(sums).scatter_reduce(0, batch.scene[:, None].expand_as(seen), seen, "amax")
        values: Tensor = self.state_out(F.relu(self.state_hidden(torch.cat([sums * SUM_SCALE, most], dim=1))))
        return values[:, 0]

    def v(self, batch: Batch) -> Tensor:
        return self._states(batch, self.encode(batch))

    def _edges(self, batch: Batch, references: Tensor, scene: Tensor, kind: Tensor, ref: Tensor) -> Tensor:
        """(m, decoder): edges from a kind of block (m,) to an object (m,) of a scene (m,)."""
        left = batch.left[..., None] / 3
        widths = (self.kind_widths / SCALE)[None, :, None].expand(len(batch), -1, -1)
        which = torch.eye(KINDS, device=left.device).expand(len(batch), -1, -1)
        kinds = self.kind(torch.cat([which, left, widths], dim=-1))
        more = (self.kind_widths[kind] - batch.size[scene, ref, 0].clamp(max=MAX_WIDTH)) / SCALE
        fit = self.fit(torch.stack([more, more.abs()], dim=-1))
        pairs = references.index_select(0, batch.start[scene] + ref) + kinds[scene, kind] + fit
        return F.relu(self.edge(F.relu(pairs)))

    def _figures(self, batch: Batch, references: Tensor, edges: Tensor, which: Tensor, placements: tuple[Tensor, ...]) -> Tensor:
        """(m, 2, 3): `later`, `reward` and `end`, without and with glue, of placements: scene, kind, reference and offset (m,) each, and
        `which` (m,) of the `edges` (k, decoder) each is on."""
        scene, kind, ref, offset = placements
        placed = locate(batch, self.layout.offsets, self.kind_widths, scene, kind, ref, offset.float())
        objects = self.object(references) + self.seen.bias
        seen = look(placed, scene, batch, objects, self.seen.weight)
        tokens = F.relu(self.gather(seen) + self.to_token(edges).index_select(0, which))
        figures = self.out(F.relu(self.hidden(tokens))).view(-1, FIGURES, 2)
        base = self.base(edges).view(-1, 2).index_select(0, which * self.layout.offsets + offset)
        return torch.cat([figures[:, :1] + base[:, None], figures[:, 1:]], dim=1).transpose(1, 2)

    def _every(self, batch: Batch, references: Tensor, whole: int) -> Tensor:
        masks = self.mask(batch.host[:whole])[..., ::2]
        pairs = masks.any(dim=-1).nonzero()
        which, offset = masks[tuple(pairs.T)].nonzero().unbind(1)
        pairs, which, offset, place = (batch.send(each) for each in (pairs, which, offset, masks.flatten().nonzero()[:, 0]))
        edges = self._edges(batch, references, *pairs.unbind(1))
        figures = self._figures(batch, references, edges, which, (*pairs.index_select(0, which).unbind(1), offset))
        values = figures.new_zeros(masks.numel(), 2).index_copy(0, place, figures[..., 0] + figures[..., 1])
        return values.view(*masks.shape[:-1], self.outputs)

    def _outcomes(self, batch: Batch, references: Tensor, actions: Tensor, scenes: Tensor | None) -> Outcomes:
        """Of actions (m, 4) in scenes (m,) of the batch; None: one in each."""
        scenes = torch.arange(len(batch), device=batch.device) if scenes is None else scenes
        slot, receiver, offset, sticky = actions.unbind(1)
        given = scenes, self.kind_of_slot[slot], receiver - SLOTS
        every = torch.arange(len(actions), device=batch.device)
        figures = self._figures(batch, references, self._edges(batch, references, *given), every, (*given, offset))
        later, reward, end = figures[every, sticky].unbind(1)
        # The reward has targets of its own, so errors of Q teach what comes later alone.
        return Outcomes(later + reward.detach(), reward, end)

    def _at(self, batch: Batch, references: Tensor, actions: Tensor, scenes: Tensor | None) -> Tensor:
        return self._outcomes(batch, references, actions, scenes).q

    def outcomes(self, batch: Batch, actions: Tensor, scenes: Tensor | None = None) -> Outcomes:
        references = self.encode(batch)
        return self._outcomes(batch, references, actions, scenes)._replace(state=self._states(batch, references))


def look(placed: Placements, scene: Tensor, batch: Batch, objects: Tensor, weight: Tensor) -> Tensor:
    """(m, 2P): what `placements.look_forward` says of placements in scenes (m,), from what the objects of the batch say of themselves,
    `objects` (n, P), and `weight` (P, 40)."""
    if objects.device.type == "cpu":
        return look_compiled(placed, scene, batch, objects, weight)
    return look_by_tensors(placed, scene, batch, objects, weight)


def look_by_tensors(placed: Placements, scene: Tensor, batch: Batch, objects: Tensor, weight: Tensor) -> Tensor:
    """`look` in tensor operations, for any device."""
    there = batch.present.new_zeros(batch.present.shape, dtype=torch.long) - 1
    there.flatten()[batch.padded[0]] = torch.arange(len(objects), device=batch.device)
    return look_plain(placed, there[scene], _boxes(batch), objects, weight)


def look_compiled(placed: Placements, scene: Tensor, batch: Batch, objects: Tensor, weight: Tensor) -> Tensor:
    """`look` in compiled loops, for the CPU, which take the placements of a scene one after another."""
    if (scene[1:] >= scene[:-1]).all():
        out: Tensor = _Look.apply(objects, weight, placed, scene, batch)
        return out
    order = scene.argsort(stable=True)
    sorted_: Tensor = _Look.apply(objects, weight, Placements(*(each[order] for each in placed)), scene[order], batch)
    return sorted_.index_select(0, order.argsort())


def _boxes(batch: Batch) -> Tensor:
    """(n, 6): computed once, in main memory: the learning and the target network both ask for it."""
    if "boxes" not in batch.memo:
        batch.memo["boxes"] = batch.send(torch.from_numpy(boxes(batch.arrays)))
    box: Tensor = batch.memo["boxes"]
    return box


class _Look(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, objects: Tensor, weight: Tensor, placed: Placements, scene: Tensor, batch: Batch) -> Tensor:
        out = objects.new_empty(len(scene), 2 * len(weight))
        objects, weight = objects.detach().contiguous(), weight.detach().contiguous()
        first = np.searchsorted(scene.numpy(), np.arange(len(batch) + 1))
        ctx.given = first, *(each.numpy() for each in placed), batch.first, _boxes(batch).numpy()
        look_forward(*ctx.given, objects.numpy(), weight.numpy(), out.numpy())  # type: ignore[call-arg]
        ctx.save_for_backward(objects, weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        objects, weight = ctx.saved_tensors
        back = torch.zeros_like(objects), torch.zeros_like(weight)
        look_backward(grads[0].contiguous().numpy(), *ctx.given, objects.numpy(), weight.numpy(), *(each.numpy() for each in back))  # type: ignore[call-arg]
        return *back, None, None, None
