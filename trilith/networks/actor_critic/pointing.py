"""An actor-critic that points at objects (ours). The policy is a mixture, and each of its components belongs to a kind of block and an
object. The critic attends to objects.

The paper's encoders return one vector. From this vector the policy regresses the numbers of an action: the block, and the position of the
reference object. Here every object is a token of an attention network, and each pair of a kind of block and an object has its own
components. The means of a component are preset to pick its block and its object. The network learns the probability of each component and
the remaining numbers of the action: Δx, or x and y of absolute actions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trilith.networks.inputs.objects import MAX_WIDTH, NODE_FEATURES, PAIR_FEATURES, SCALE, SHARP
from trilith.networks.inputs.scene_batch import KIND_WIDTHS, KINDS, SLOTS_OF_KIND, SceneBatch
from trilith.networks.layers.attention import ObjectTrunk, scene_mean
from trilith.world.actions import CLEARANCE, height_on
from trilith.world.scene import PLACE_X, PLACE_Y, SLOT_X, SLOTS, Role

PLACES = (-0.7, 0.0, 0.7)
"""Initial horizontal positions of the components that belong to an object, from left to right. 1 and -1 are the positions of a block just
beside the object, 0 is its centre."""
GLUE = (-1.0, 1.0)
"""The value of an action's last number: without glue, and with glue."""
COMPONENTS = len(PLACES) * len(GLUE)
"""Number of components for each pair of a kind of block and an object."""
NARROW = -20.0
"""Raw network output for the standard deviation of those numbers of an action that pick a block, an object or glue. It is so low that it
gives the smallest allowed standard deviation."""
NEVER = -1e4
"""Logit of a component that must not be chosen, because no block of its kind is left or its object does not exist."""
NEAR = 0.3
"""Metres: scale of the nearness of a point to the centre of an object, exp(-(distance / NEAR)²)."""
PICKED = 0.07
"""Scale of the critic's comparison of an action with a slot, exp(-((a - s) / PICKED)²). Here a is the first number of the action, which
picks a slot, and s is the number of the slot. The numbers of two slots are at least 0.15 apart."""
ATTENTIVE = 5.0
"""Initially, an object at the point of an action gets about exp(ATTENTIVE) times the attention weight of a distant object."""
RELATIVE = 5
"""How many numbers a continuous relative action has."""


class Tokens(NamedTuple):
    """The encoded objects of B scenes, packed: n rows, one scene after another. R is the largest number of objects in a scene."""

    tokens: Tensor
    """(n, width): the token of each object, one scene after another."""
    pooled: Tensor
    """(B, width): the mean token of each scene."""
    boxes: Tensor
    """(n, 4): x and y of the centre, width and height of each object, in metres."""
    is_target: Tensor
    """(n,): 1 if the object is a target, else 0."""
    scene: Tensor
    """(n,): the index of each object's scene."""
    place: Tensor
    """(n,): the index of each object in a list of B · R rows: the objects of each scene, padded to R rows."""
    present: Tensor
    """(B, R): for each scene, mask of the rows that are not padding."""
    available: Tensor
    """(B, 7): for each scene, mask of the slots whose block is still available."""


class TokenEncoder(ObjectTrunk):
    """Encodes objects as tokens, by the same kind of attention trunk as in the Q-network `objects`."""

    def __init__(self) -> None:
        super().__init__()
        self.add_trunk(NODE_FEATURES, PAIR_FEATURES, width=64, layers=3, heads=4, pair=32)

    def forward(self, batch: SceneBatch) -> Tokens:
        """Encodes the objects of a batch."""
        tokens, seen = self.object_tokens(batch), batch.tensors
        pooled = scene_mean(tokens, batch)
        boxes = np.concatenate([batch.pose[..., :2], batch.size], axis=-1)[batch.present]
        is_target = (batch.role == Role.TARGET)[batch.present].astype(np.float32)
        return Tokens(tokens, pooled, batch.send(boxes), batch.send(is_target), seen.scene, seen.place, seen.present, seen.available)


class PointingActor(nn.Module):
    """Computes the raw parameters of a mixture policy. Each pair of an object and a kind of block has six components: without and with glue
    at each of three positions."""

    def __init__(self, actions: int, width: int = 64, decoder: int = 128) -> None:
        """`actions` is the length of an action: 5 (relative) or 4 (absolute)."""
        super().__init__()
        self.relative = actions == RELATIVE
        self.free = slice(3, 4) if self.relative else slice(1, 3)
        """The slice of an action's numbers whose means and scales are learned: Δx of a relative action, x and y of an absolute one. The
        other numbers pick the block, the object and glue."""
        self.reference = nn.Linear(width, decoder)
        self.pooled = nn.Linear(width, decoder, bias=False)
        self.kind = nn.Linear(KINDS + 2, decoder, bias=False)
        self.fit = nn.Linear(2, decoder, bias=False)
        self.hidden = nn.Linear(decoder, decoder)
        self.out = nn.Linear(decoder, COMPONENTS * (1 + 2 * (self.free.stop - self.free.start)))
        self.widths = nn.Buffer(torch.tensor(KIND_WIDTHS), persistent=False)
        self.holds = nn.Buffer(torch.from_numpy(SLOTS_OF_KIND), persistent=False)
        self.picks = _picks()

    def forward(self, seen: Tokens) -> Tensor:
        """Returns the raw parameters of a mixture policy in each of B states, as a tensor (B, M · (2 · A + 1)). M = 18 · R is the number of
        components for R objects, A is the length of an action. First come all means, then all scales, then the logits of the components.
        Means and scales are not yet limited to their ranges."""
        (b, r), n = seen.present.shape, len(seen.tokens)
        kinds = seen.available[:, None] & self.holds  # (B, 3, 7): the slots of each kind that are left
        left = kinds.sum(dim=-1)
        which = torch.eye(KINDS, device=left.device).expand(b, -1, -1)
        about = torch.cat([which, left[..., None] / 3, (self.widths / SCALE)[None, :, None].expand(b, -1, -1)], dim=-1)
        of_scene = self.kind(about) + self.pooled(seen.pooled)[:, None]
        more = (self.widths - seen.boxes[:, 2:3].clamp(max=MAX_WIDTH)) / SCALE
        pairs = (
            self.reference(seen.tokens)[:, None] + of_scene.index_select(0, seen.scene) + self.fit(torch.stack([more, more.abs()], dim=-1))
        )
        raw = self.out(F.relu(self.hidden(F.relu(pairs)))).view(n, KINDS * COMPONENTS, -1)
        (weight, numbers), free = raw.tensor_split([1], dim=-1), self.free
        shift, spread = numbers.chunk(2, dim=-1)
        gone = (left == 0).index_select(0, seen.scene).repeat_interleave(COMPONENTS, dim=1)
        mean = self.anchors(seen, self.picks[kinds.float().argmax(dim=-1)]).flatten(1, 2)
        scale = torch.full_like(mean, NARROW)
        mean[..., free], scale[..., free] = mean[..., free] + shift, spread

        def padded(rows: Tensor, empty: float) -> Tensor:
            return rows.new_full((b * r, rows.shape[1]), empty).index_copy(0, seen.place, rows).view(b, -1)

        weight = padded(weight[..., 0].masked_fill(gone, NEVER), NEVER)
        return torch.cat([padded(mean.flatten(1), 0.0), padded(scale.flatten(1), 0.0), weight], dim=1)

    def anchors(self, seen: Tokens, picks: Tensor) -> Tensor:
        """The initial means (n, 3, 6, A) of the components: six for each of n objects and three kinds of block, each an action of A
        numbers. `picks` (B, 3) has, for each scene and kind, the first number of an action that picks a block of this kind."""
        x, y, wide, high = (each[:, None, None, None] for each in seen.boxes.unbind(-1))
        places = torch.tensor(PLACES, device=x.device)[:, None]
        glue = torch.tensor(GLUE, device=x.device)
        pick = picks.index_select(0, seen.scene)[..., None, None]
        if self.relative:
            numbers = [pick, _across(x), _up(y), places, glue]
        else:
            reach = (wide + self.widths[:, None, None]) / 2 + CLEARANCE
            numbers = [pick, _across(x + reach * places), _up(height_on(seen.is_target[:, None, None, None], y, high)), glue]
        shape = (len(x), KINDS, len(PLACES), len(GLUE))
        return torch.stack([each.expand(shape) for each in numbers], dim=-1).flatten(2, 3)


class PointedCritic(nn.Module):
    """A critic that attends to objects. For each object the critic computes features from the object's token, the action, and the vector
    from the object to the action's point (x, y). The value of the action is computed from a weighted mean of these features. The weights
    are learned; initially the nearest object has the highest weight."""

    def __init__(self, actions: int, width: int = 64, decoder: int = 64) -> None:
        super().__init__()
        self.token = nn.Linear(width, decoder)
        self.pooled = nn.Linear(width, decoder, bias=False)
        self.action = nn.Linear(actions + 2 * SLOTS, decoder, bias=False)
        self.beside = nn.Linear(5, decoder, bias=False)
        self.mixed = nn.Linear(decoder, decoder)
        self.score = nn.Linear(decoder, 1, bias=False)
        self.hidden = nn.Linear(decoder, decoder)
        self.out = nn.Linear(decoder, 1)
        self.picks = _picks()

    def forward(self, seen: Tokens, actions: Tensor) -> Tensor:
        """Returns the values (B, K, 1) of K actions in each of B scenes. `actions` (B, K, A) has the A numbers of each action."""
        picked = torch.exp(-((actions[..., :1] - self.picks) / PICKED).square())
        of_action = self.action(torch.cat([actions, picked, picked * seen.available[:, None]], dim=-1)) + self.pooled(seen.pooled)[:, None]
        point = torch.stack([PLACE_X[1] * actions[..., 1], PLACE_Y[1] / 2 * (actions[..., 2] + 1)], dim=-1)
        off = point.index_select(0, seen.scene) - seen.boxes[:, None, :2]
        near = torch.exp(-(off / NEAR).square().sum(dim=-1, keepdim=True))
        beside = self.beside(torch.cat([off.clamp(-MAX_WIDTH, MAX_WIDTH) / SCALE, (SHARP * off).tanh(), near], dim=-1))
        said = F.relu(self.mixed(F.relu(self.token(seen.tokens)[:, None] + of_action.index_select(0, seen.scene) + beside)))
        share = torch.exp(ATTENTIVE * ((self.score(said) / ATTENTIVE).tanh() + near))
        sums = said.new_zeros(*actions.shape[:2], said.shape[-1] + 1).index_add(0, seen.scene, torch.cat([share * said, share], dim=-1))
        return self.out(F.relu(self.hidden(sums[..., :-1] / sums[..., -1:])))


def _picks() -> nn.Buffer:
    """A buffer (7,) with the first number of an action that picks each slot."""
    return nn.Buffer(torch.from_numpy((SLOT_X / 7).astype(np.float32)), persistent=False)


def _across(x: Tensor) -> Tensor:
    return (x / PLACE_X[1]).clamp(-1, 1)


def _up(y: Tensor) -> Tensor:
    return (y / (PLACE_Y[1] / 2) - 1).clamp(-1, 1)
