"""Our network `objects`, which computes the Q-values of placements from the objects of a scene.

Objects are tokens of a small transformer (`layers/attention.py`). Every placement that may be chosen becomes a token as well. The inputs of
a placement are the encoded objects, and the differences between its coordinates and the coordinates of each object
(`inputs/placements.py`). The network predicts three numbers for a placement:

    Q(s, a) = reward(s, a) + later(s, a),    p_end(s, a) = sigmoid(end(s, a))

`reward` is the immediate reward of the placement, `later` is the return of the rest of the episode, and p_end is the probability that the
placement ends the episode. `reward` and p_end are also learned from placements that were only simulated. The network also predicts V(s),
the value of the state. V(s) is cheap, because it needs no placements, and it is the bootstrap value in the targets of Q-values.

This torch module is for learning. `inference.objects.ActingObjects` computes the same function without torch, for acting. Change both
together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from trilith.networks.config import Mask, NetConfig
from trilith.networks.inference.attention import kind_mask
from trilith.networks.inputs.objects import CLOCK_FEATURES, MAX_WIDTH, NODE_FEATURES, PAIR_FEATURES, SCALE, clock
from trilith.networks.inputs.placements import (
    COLUMNS,
    FIGURES,
    SUM_SCALE,
    Placements,
    backward_width,
    boxes,
    check_offsets,
    locate,
    look_backward,
    look_forward,
    look_plain,
)
from trilith.networks.inputs.scene_batch import KIND_WIDTHS, KINDS, ReplaySchema, SceneBatch, once_per_batch
from trilith.networks.layers.attention import ObjectTrunk, scene_mean, send_copy
from trilith.networks.q.base import DEFAULT, BlockTypeQNetwork, Outcomes
from trilith.world.scene import SLOTS


class ObjectsNet(BlockTypeQNetwork, ObjectTrunk):
    """The network `objects`, see the module."""

    values_states = True

    def __init__(self, schema: ReplaySchema, mask: Mask = "legal", net: NetConfig = DEFAULT) -> None:
        super().__init__(schema, mask)
        check_offsets(schema)
        width, decoder, message, token = net.width, net.decoder, net.message, net.token
        self.add_trunk(NODE_FEATURES, PAIR_FEATURES, width, net.layers, net.heads, net.pair)
        self.clock = nn.Linear(CLOCK_FEATURES, width, bias=False) if net.clock else None
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
        for layer in (self.base, self.out, self.state_out):
            nn.init.zeros_(layer.bias)
        self.kind_widths = nn.Buffer(torch.tensor(KIND_WIDTHS), persistent=False)

    def encode(self, batch: SceneBatch) -> Tensor:
        """Returns a tensor (n, decoder) with a row for each of the n objects of a batch, one scene after another. A row combines an object
        after the attention layers with an encoding of its whole scene."""
        steps_left = None
        if self.clock is not None:
            assert batch.steps_left is not None, "the schema does not store how many steps are left"
            steps_left = self.clock(send_copy(batch, clock(batch.steps_left)))
        tokens = self.object_tokens(batch, steps_left)
        return self.reference(tokens) + self.pooled(scene_mean(tokens, batch)).index_select(0, batch.tensors.scene)

    def _states(self, batch: SceneBatch, references: Tensor) -> Tensor:
        """The value (B,) of each of B scenes. `references` has the encoded objects, as `encode` returns them."""
        seen, scene = F.relu(references), batch.tensors.scene
        sums = seen.new_zeros(len(batch), seen.shape[1]).index_add(0, scene, seen)
        most = torch.zeros_like(sums).scatter_reduce(0, scene[:, None].expand_as(seen), seen, "amax")
        return self.state_out(F.relu(self.state_hidden(torch.cat([sums * SUM_SCALE, most], dim=1))))[:, 0]

    def v(self, batch: SceneBatch) -> Tensor:
        return self._states(batch, self.encode(batch))

    def _edges(self, batch: SceneBatch, references: Tensor, scene: Tensor, kind: Tensor, ref: Tensor) -> Tensor:
        """Returns m encoded edges (m, decoder). Edge i goes from the kind of block `kind[i]` to the object `ref[i]` of the scene
        `scene[i]`. `references` has the encoded objects, as `encode` returns them."""
        left = batch.tensors.left[..., None] / 3
        widths = (self.kind_widths / SCALE)[None, :, None].expand(len(batch), -1, -1)
        which = torch.eye(KINDS, device=left.device).expand(len(batch), -1, -1)
        kinds = self.kind(torch.cat([which, left, widths], dim=-1))
        more = (self.kind_widths[kind] - batch.tensors.size[scene, ref, 0].clamp(max=MAX_WIDTH)) / SCALE
        fit = self.fit(torch.stack([more, more.abs()], dim=-1))
        pairs = references.index_select(0, batch.tensors.start[scene] + ref) + kinds[scene, kind] + fit
        return F.relu(self.edge(F.relu(pairs)))

    def _figures(self, batch: SceneBatch, references: Tensor, edges: Tensor, which: Tensor, placements: tuple[Tensor, ...]) -> Tensor:
        """Returns predictions (m, 2, 3) for m placements. The second axis is without and with glue. The last axis is `later`, `reward` and
        `end`: the return after the placement, its reward, and the log-odds that it ends the episode.

        `placements` has four tensors (m,): scene, kind of block, reference object and offset. `edges` (k, decoder) has encoded edges,
        `references` encoded objects. `which` (m,) is the row of each placement's edge in `edges`.
        """
        scene, kind, ref, offset = placements
        placed = locate(batch.tensors, self.schema.offsets, self.kind_widths, scene, kind, ref, offset.float())
        objects = self.object(references) + self.seen.bias
        seen = look(placed, scene, batch, objects, self.seen.weight)
        tokens = F.relu(self.gather(seen) + self.to_token(edges).index_select(0, which))
        figures = self.out(F.relu(self.hidden(tokens))).view(-1, FIGURES, 2)
        base = self.base(edges).view(-1, 2).index_select(0, which * self.schema.offsets + offset)
        return torch.cat([figures[:, :1] + base[:, None], figures[:, 1:]], dim=1).transpose(1, 2)

    def q(self, batch: SceneBatch) -> Tensor:
        references = self.encode(batch)
        mask = kind_mask(batch, self.mask_rule, self.outputs)[..., ::2]
        edges_at = np.nonzero(mask.any(axis=-1))
        which_, offset_ = mask[edges_at].nonzero()
        scene, kind, ref, which, offset, place = (batch.send(each) for each in (*edges_at, which_, offset_, np.flatnonzero(mask)))
        edges = self._edges(batch, references, scene, kind, ref)
        figures = self._figures(batch, references, edges, which, (scene[which], kind[which], ref[which], offset))
        values = figures.new_zeros(mask.size, 2).index_copy(0, place, figures[..., 0] + figures[..., 1])
        return values.view(*mask.shape[:-1], self.outputs)

    def _outcomes(self, batch: SceneBatch, references: Tensor, index: Tensor, scenes: Tensor | None) -> Outcomes:
        """Returns predictions for m actions: action `index[i]` in scene `scenes[i]` of the batch. If `scenes` is None, action i belongs to
        scene i. `references` has the encoded objects, as `encode` returns them."""
        every = torch.arange(len(index), device=index.device)
        slot, node, offset, sticky = self.schema.parts(index)
        given = every if scenes is None else scenes, self.kind_of_slot[slot], node - SLOTS
        figures = self._figures(batch, references, self._edges(batch, references, *given), every, (*given, offset))
        later, reward, end = figures[every, sticky].unbind(1)
        # The reward has its own targets, so the loss of Q trains only `later`.
        return Outcomes(later + reward.detach(), reward, end)

    def q_at(self, batch: SceneBatch, index: Tensor, scenes: Tensor | None = None) -> Tensor:
        return self._outcomes(batch, self.encode(batch), index, scenes).q

    def outcomes(self, batch: SceneBatch, index: Tensor, scenes: Tensor | None = None) -> Outcomes:
        references = self.encode(batch)
        return self._outcomes(batch, references, index, scenes)._replace(state=self._states(batch, references))


def look(placed: Placements, scene: Tensor, batch: SceneBatch, objects: Tensor, weight: Tensor) -> Tensor:
    """Returns the result (m, 2P) of `placements.look_forward` for m placements, as a tensor with gradients. `scene` (m,) is the scene of
    each placement. `objects` (n, P) has the part of the messages that depends on the object alone, and `weight` (P, 40) the weights of the
    other part. On the CPU, compiled loops process the placements scene by scene."""
    if objects.device.type != "cpu":
        return look_by_tensors(placed, scene, batch, objects, weight)
    if (scene[1:] >= scene[:-1]).all():
        return _Look.apply(objects, weight, placed, scene, batch)
    order = scene.argsort(stable=True)
    in_order = _Look.apply(objects, weight, Placements(*(each[order] for each in placed)), scene[order], batch)
    return in_order.index_select(0, order.argsort())


def look_by_tensors(placed: Placements, scene: Tensor, batch: SceneBatch, objects: Tensor, weight: Tensor) -> Tensor:
    """`look` in tensor operations, for any device."""
    rows = np.where(batch.present, batch.present.cumsum().reshape(batch.present.shape) - 1, -1)
    return look_plain(placed, batch.send(rows)[scene], _boxes(batch), objects, weight)


@once_per_batch
def _boxes(batch: SceneBatch) -> Tensor:
    """The coordinates (n, 6) of the n objects of a batch as a tensor, see `placements.boxes`."""
    return batch.send(boxes(batch))


class _Look(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, objects: Tensor, weight: Tensor, placed: Placements, scene: Tensor, batch: SceneBatch) -> Tensor:
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
        first, _, _, _, first_object, _ = ctx.given
        width = backward_width(first, first_object)
        objects_grad, of_messages, columns = (
            torch.zeros_like(objects),
            objects.new_empty(len(weight), width),
            objects.new_empty(COLUMNS, width),
        )
        filled = objects_grad.numpy(), of_messages.numpy(), columns.numpy()
        look_backward(grads[0].contiguous().numpy(), *ctx.given, objects.numpy(), weight.numpy(), *filled)  # type: ignore[call-arg]
        return objects_grad, of_messages @ columns.t(), None, None, None
