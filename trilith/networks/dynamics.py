"""Predicts the result of a placement by attention over the objects of a scene: changes of pose, contacts, reward and end.

Every object is a token. The new block is marked, and its input pose is the end of a straight fall, since contacts begin there. For
each block the network predicts whether it comes to rest elsewhere (the new block: than after the fall; others: than now), and if
so, where. A block predicted to stay keeps its exact pose, even when predictions are chained.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trilith.networks.inputs.objects import MAX_WIDTH, SCALE
from trilith.networks.inputs.scene_batch import Floats32
from trilith.networks.kernels.relational_attention import Rows
from trilith.networks.layers.attention import AttentionTrunk
from trilith.world.scene import Bools, Ints, Role

_SHARPNESS = (4.0, 16.0)
"""Lengths between objects are inputs as they are, and as tanh of these multiples, which resolve far, near and touching."""
_SIDE_LENGTHS = 8
PAIR_INPUTS = (1 + len(_SHARPNESS)) * _SIDE_LENGTHS + 3
NODE_INPUTS = 11 + len(Role)


class DynamicsInput(NamedTuple):
    """B scenes of up to R objects, each with one newly placed block; see `agents.dynamics.rigid_body_features`."""

    objects: Ints
    """(B,): number of objects."""
    new: Ints
    """(B,)"""
    pose: Tensor
    """(B, R, 3): the pose of every object; the new block is where it is placed."""
    size: Floats32
    """(B, R, 2)"""
    role: Ints
    """(B, R)"""
    sticky: Bools
    """(B, R)"""
    fixed: Bools
    """(B, R): objects that cannot move."""
    links: Floats32
    """(B, R, R, 3): which touch, which are bonded, which are one rigid body."""
    fall: Floats32
    """(B, F): features of the new block: its height after a straight fall in metres, then other features of the fall, about 1."""


class Predicted(NamedTuple):
    """Predictions for B placements. `base` is the pose of all objects if the new block fell straight down and nothing else moved."""

    base: Tensor
    """(B, R, 3)"""
    moves: Tensor
    """(B, R): logit of whether an object comes to rest elsewhere than at its base; very negative for objects that cannot move."""
    shift: Tensor
    """(B, R, 2): displacement from the base, if the object moves."""
    turn: Tensor
    """(B, R, 2): cosine and sine of twice the angle, if the object moves. Twice, because a rectangle turned by 180° is the same."""
    pose: Tensor
    """(B, R, 3): the predicted pose: the base, or the displaced pose where moving is more likely than not."""
    touch: Tensor
    """(B, R, R): logits of contacts."""
    hit: Tensor
    """(B,): logit of touching an obstacle."""
    complete: Tensor
    """(B,): logit that the task is complete, if no obstacle is touched."""
    reward: Tensor
    """(B,): predicted reward of the step."""


class Dynamics(AttentionTrunk):
    """See the module."""

    def __init__(self, fall: int, width: int = 64, layers: int = 3, heads: int = 4, pair: int = 32) -> None:
        super().__init__()
        self.add_trunk(NODE_INPUTS + fall, PAIR_INPUTS, width, layers, heads, pair)
        self.object = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 6))
        self.ends = nn.Sequential(nn.Linear(3 * width, width), nn.ReLU(), nn.Linear(width, 2))
        self.ask, self.answer = nn.Linear(width, pair), nn.Linear(width, pair)
        self.contact = nn.Sequential(nn.Linear(PAIR_INPUTS + pair, pair), nn.ReLU(), nn.Linear(pair, 1))

    def forward(self, given: DynamicsInput) -> Predicted:
        """Predictions for the new block of each scene."""
        b, r = given.role.shape
        present = np.arange(r) < given.objects[:, None]
        both = present[:, :, None] & present[:, None]
        rows = Rows(*(np.concatenate([[0], np.cumsum(counts)]) for counts in (given.objects, given.objects**2)))
        scene, place = (torch.from_numpy(each) for each in present.nonzero())
        pair_at = tuple(torch.from_numpy(each) for each in both.nonzero())
        is_new = torch.from_numpy(np.arange(r) == given.new[:, None])
        fall = torch.from_numpy(given.fall)

        base = given.pose.clone()
        base[:, :, 1] = torch.where(is_new, fall[:, :1], base[:, :, 1])
        links = torch.from_numpy(given.links)
        sides = _sides(base, torch.from_numpy(given.size))
        relations = torch.cat([_between(sides, pair_at), links[pair_at]], dim=1)
        tokens = self.attention(self.node(_nodes(given, base, is_new, fall)[scene, place]), self.pair(relations), rows)

        new = tokens[torch.from_numpy(rows.first[:-1] + given.new)]
        mean = tokens.new_zeros(b, tokens.shape[1]).index_add(0, scene, tokens) / torch.from_numpy(given.objects)[:, None]
        most = tokens.new_full((b, r, tokens.shape[1]), -10.0).index_put((scene, place), tokens).amax(dim=1)
        found = tokens.new_zeros(b, r, 6).index_put((scene, place), self.object(torch.cat([tokens, new[scene]], dim=1)))
        ends = self.ends(torch.cat([new, mean, most], dim=1))

        moves = found[..., 0].masked_fill(torch.from_numpy(given.fixed), -20.0)
        twice = 2 * base[..., 2]
        turn = F.normalize(found[..., 3:5] + torch.stack([twice.cos(), twice.sin()], dim=-1), dim=-1, eps=1e-3)
        there = torch.cat([base[..., :2] + found[..., 1:3], torch.atan2(turn[..., 1:], turn[..., :1] + 1e-9) / 2], dim=-1)
        pose = torch.where((moves > 0)[..., None], there, base)

        after = torch.cat([_between(_sides(pose.detach(), torch.from_numpy(given.size)), pair_at), links[pair_at]], dim=1)
        first = torch.from_numpy(rows.first)[pair_at[0]]
        asked = self.ask(tokens)[first + pair_at[1]] * self.answer(tokens)[first + pair_at[2]]
        contact = self.contact(torch.cat([after, asked], dim=1))[:, 0]
        touch = tokens.new_full((b, r, r), -20.0).index_put(pair_at, contact)
        touch = (touch + touch.transpose(1, 2)) / 2
        return Predicted(base, moves, found[..., 1:3], turn, pose, touch, ends[:, 0], ends[:, 1], found[..., 5].sum(dim=1))


def _nodes(given: DynamicsInput, pose: Tensor, is_new: Tensor, fall: Tensor) -> Tensor:
    """(B, R, NODE_INPUTS + F): features of each object; the new block also has the features of the fall."""
    size = torch.from_numpy(given.size)
    x, y, angle = pose.unbind(-1)
    w, h = size[..., 0].clamp(max=MAX_WIDTH), size[..., 1]
    flags = [torch.from_numpy(each).float() for each in (given.sticky, given.fixed)]
    columns = [
        x / 7, y / SCALE, (2 * angle).cos() - 1, (2 * angle).sin(), w / SCALE, h, (x - w / 2) / 7, (x + w / 2) / 7,
        *flags, is_new.float(),
    ]  # fmt: skip
    scale = torch.tensor([SCALE] + [1.0] * (fall.shape[1] - 1))  # the height is in metres, the other features are about 1
    role = F.one_hot(torch.from_numpy(given.role), len(Role)).float()
    return torch.cat([torch.stack(columns, dim=-1), role, (fall / scale)[:, None] * is_new[..., None]], dim=-1)


def _sides(pose: Tensor, size: Tensor) -> Tensor:
    """(B, R, 6): centre, then left, right, bottom and top of the upright box around each object."""
    x, y, angle = pose.unbind(-1)
    c, s = angle.cos().abs(), angle.sin().abs()
    across, up = (size[..., 0] * c + size[..., 1] * s) / 2, (size[..., 0] * s + size[..., 1] * c) / 2
    return torch.stack([x, y, x - across, x + across, y - up, y + up], dim=-1)


_MINE, _OTHERS = [0, 1, 2, 3, 2, 3, 4, 5], [0, 1, 2, 3, 3, 2, 5, 4]


def _between(sides: Tensor, pair_at: tuple[Tensor, ...]) -> Tensor:
    """(p, 24): distances between centres, edges of the same side and of opposite sides of pairs of objects."""
    scene, i, j = pair_at
    lengths = sides[scene, i][:, _MINE] - sides[scene, j][:, _OTHERS]
    return torch.cat([lengths.clamp(-2 * MAX_WIDTH, 2 * MAX_WIDTH) / SCALE, *((each * lengths).tanh() for each in _SHARPNESS)], dim=1)
