"""Base class of the networks of learned transition models. They predict the result of a placement: the new poses, the contacts, the reward,
and whether the episode ends.

Every object is a token, and the token of the new block is marked. A subclass computes the tokens. Each token depends on all objects of the
scene.

Each object has a base pose, which is an input. The base pose of the new block is the pose at the end of a straight fall, because contacts
begin there. The base pose of any other object is its current pose. For each block the network predicts whether the block moves away from
its base pose, and its new pose in this case. A block that is predicted to stay keeps its exact pose, even when predictions are chained.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trilith.networks.inputs.objects import MAX_WIDTH, SCALE
from trilith.networks.inputs.rigid_body_features import FALL, Placed, bodies, falls
from trilith.networks.layers.attention import Rows
from trilith.world.scene import Bools, Role

_SHARPNESS = (4.0, 16.0)
"""The distance between two objects is an input in three forms: the distance itself, and tanh(factor · distance) for each of these factors.
The three forms resolve far, near and touching objects."""
_SIDE_LENGTHS = 8
"""Number of distances between two objects that are inputs: between their centres, and between sides of their bounding boxes. See
`_between`."""
PAIR_INPUTS = (1 + len(_SHARPNESS)) * _SIDE_LENGTHS + 3
"""Number of input features of a pair: the distances, and whether the two objects touch, are glued, and are in the same rigid group."""
NODE_INPUTS = 11 + len(Role) + FALL
"""Number of input features of an object, see `_nodes`."""


class Predicted(NamedTuple):
    """Predictions for B placements, in scenes of up to R objects."""

    base: Tensor
    """(B, R, 3): the base pose of each object: x, y and angle. For the new block it is the pose at the end of a straight fall, for any
    other object its current pose."""
    fixed: Bools
    """(B, R): for each scene, mask of the objects that cannot move; padding is marked too."""
    moves: Tensor
    """(B, R): for each object, the logit of the probability that it moves away from its pose in `base`. Very negative for objects that
    cannot move."""
    shift: Tensor
    """(B, R, 2): for each object, the displacement from its pose in `base` in metres, if it moves."""
    turn: Tensor
    """(B, R, 2): cosine and sine of twice the new angle of each object, if it moves. The angle is doubled because a rectangle looks the
    same after a turn by 180°."""
    pose: Tensor
    """(B, R, 3): the predicted pose of each object, as x, y and angle. It is the displaced pose if the object moves with a probability
    above 0.5, else the pose in `base`."""
    touch: Tensor
    """(B, R, R): for each pair of objects, the logit of the probability that they touch."""
    hit: Tensor
    """(B,): for each placement, the logit of the probability that a block touches an obstacle."""
    complete: Tensor
    """(B,): for each placement, the logit of the probability that the task is then complete, given that no obstacle is touched."""
    reward: Tensor
    """(B,): the predicted reward of each placement."""


class Dynamics(nn.Module):
    """Base class of the networks of learned transition models. A subclass computes a token for each object of a scene. This class predicts
    the result of a placement from these tokens."""

    def add_heads(self, width: int, pair: int) -> None:
        """Adds the layers that compute predictions from the tokens of objects, which have `width` units. To predict whether two objects
        touch, `pair` features are computed from each of the two tokens, and multiplied elementwise."""
        self.object = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 6))
        self.ends = nn.Sequential(nn.Linear(3 * width, width), nn.ReLU(), nn.Linear(width, 2))
        self.ask, self.answer = nn.Linear(width, pair), nn.Linear(width, pair)
        self.contact = nn.Sequential(nn.Linear(PAIR_INPUTS + pair, pair), nn.ReLU(), nn.Linear(pair, 1))

    def tokens(self, objects: Tensor, relations: Tensor, pairs: tuple[Tensor, ...], rows: Rows) -> Tensor:
        """Returns the tokens (n, width) of the n objects of B scenes, one scene after another.

        `objects` (n, NODE_INPUTS) has the features of each object. `relations` (p, PAIR_INPUTS) has the features of each pair of objects in
        the same scene, including each object with itself. `pairs` has three tensors (p,): the scene of each pair, and the indices of its
        two objects in that scene. `rows` tells which rows of `objects` and of `relations` belong to each scene.
        """
        raise NotImplementedError

    def forward(self, placed: Placed, poses: Tensor | None = None) -> Predicted:
        """Predicts the result of placing the new block in each of B scenes of up to R objects. If the tensor `poses` (B, R, 3) is given, it
        is used instead of the array `placed.pose`, so that gradients can flow back to the poses. Its values must equal `placed.pose`, from
        which the fall is computed."""
        b, r = placed.role.shape
        present = np.arange(r) < placed.objects[:, None]
        both = present[:, :, None] & present[:, None]
        rows = Rows(*(np.concatenate([[0], np.cumsum(counts)]) for counts in (placed.objects, placed.objects**2)))
        scene, place = (torch.from_numpy(each) for each in present.nonzero())
        pair_at = tuple(torch.from_numpy(each) for each in both.nonzero())
        is_new = torch.from_numpy(np.arange(r) == placed.new[:, None])
        same, fixed = bodies(placed)
        fall = torch.from_numpy(falls(placed))

        base = torch.from_numpy(placed.pose).clone() if poses is None else poses.clone()
        base[:, :, 1] = torch.where(is_new, fall[:, :1], base[:, :, 1])
        links = torch.from_numpy(np.stack([placed.touch, placed.glue, same], axis=-1).astype(np.float32))
        sides = _sides(base, torch.from_numpy(placed.size))
        relations = torch.cat([_between(sides, pair_at), links[pair_at]], dim=1)
        tokens = self.tokens(_nodes(placed, fixed, base, is_new, fall)[scene, place], relations, pair_at, rows)

        new = tokens[torch.from_numpy(rows.first[:-1] + placed.new)]
        mean = tokens.new_zeros(b, tokens.shape[1]).index_add(0, scene, tokens) / torch.from_numpy(placed.objects)[:, None]
        most = tokens.new_full((b, r, tokens.shape[1]), -10.0).index_put((scene, place), tokens).amax(dim=1)
        found = tokens.new_zeros(b, r, 6).index_put((scene, place), self.object(torch.cat([tokens, new[scene]], dim=1)))
        ends = self.ends(torch.cat([new, mean, most], dim=1))

        moves = found[..., 0].masked_fill(torch.from_numpy(fixed), -20.0)
        twice = 2 * base[..., 2]
        turn = F.normalize(found[..., 3:5] + torch.stack([twice.cos(), twice.sin()], dim=-1), dim=-1, eps=1e-3)
        there = torch.cat([base[..., :2] + found[..., 1:3], torch.atan2(turn[..., 1:], turn[..., :1] + 1e-9) / 2], dim=-1)
        pose = torch.where((moves > 0)[..., None], there, base)

        after = torch.cat([_between(_sides(pose.detach(), torch.from_numpy(placed.size)), pair_at), links[pair_at]], dim=1)
        first = torch.from_numpy(rows.first)[pair_at[0]]
        asked = self.ask(tokens)[first + pair_at[1]] * self.answer(tokens)[first + pair_at[2]]
        contact = self.contact(torch.cat([after, asked], dim=1))[:, 0]
        touch = tokens.new_full((b, r, r), -20.0).index_put(pair_at, contact)
        touch = (touch + touch.transpose(1, 2)) / 2
        return Predicted(base, fixed, moves, found[..., 1:3], turn, pose, touch, ends[:, 0], ends[:, 1], found[..., 5].sum(dim=1))


def _nodes(placed: Placed, fixed: Bools, pose: Tensor, is_new: Tensor, fall: Tensor) -> Tensor:
    """The input features (B, R, NODE_INPUTS) of each object in B scenes of up to R objects. `fixed` (B, R) marks the objects that cannot
    move, `is_new` (B, R) the new block. `pose` (B, R, 3) has the base poses. `fall` (B, 7) has the features of the new block's fall; for
    the other objects these columns are 0."""
    size = torch.from_numpy(placed.size)
    x, y, angle = pose.unbind(-1)
    w, h = size[..., 0].clamp(max=MAX_WIDTH), size[..., 1]
    flags = [torch.from_numpy(each).float() for each in (placed.sticky, fixed)]
    columns = [
        x / 7, y / SCALE, (2 * angle).cos() - 1, (2 * angle).sin(), w / SCALE, h, (x - w / 2) / 7, (x + w / 2) / 7,
        *flags, is_new.float(),
    ]  # fmt: skip
    scale = torch.tensor([SCALE] + [1.0] * (fall.shape[1] - 1))  # the height is in metres, the other features are about 1
    role = F.one_hot(torch.from_numpy(placed.role), len(Role)).float()
    return torch.cat([torch.stack(columns, dim=-1), role, (fall / scale)[:, None] * is_new[..., None]], dim=-1)


def _sides(pose: Tensor, size: Tensor) -> Tensor:
    """Coordinates (B, R, 6) of each object in metres: x and y of the centre, then left, right, bottom and top of its axis-aligned bounding
    box. `pose` (B, R, 3) and `size` (B, R, 2) belong to B scenes of up to R objects."""
    x, y, angle = pose.unbind(-1)
    c, s = angle.cos().abs(), angle.sin().abs()
    across, up = (size[..., 0] * c + size[..., 1] * s) / 2, (size[..., 0] * s + size[..., 1] * c) / 2
    return torch.stack([x, y, x - across, x + across, y - up, y + up], dim=-1)


_MINE, _OTHERS = [0, 1, 2, 3, 2, 3, 4, 5], [0, 1, 2, 3, 3, 2, 5, 4]


def _between(sides: Tensor, pair_at: tuple[Tensor, ...]) -> Tensor:
    """Features (p, 24) of p pairs of objects: eight signed distances, each in three forms (see `_SHARPNESS`). The distances are between the
    centres, between equal sides (left to left) and between opposite sides (left to right).

    `sides` is the result of `_sides`. `pair_at` has three tensors (p,): the scene of each pair, and the indices of its two objects in that
    scene.
    """
    scene, i, j = pair_at
    lengths = sides[scene, i][:, _MINE] - sides[scene, j][:, _OTHERS]
    return torch.cat([lengths.clamp(-2 * MAX_WIDTH, 2 * MAX_WIDTH) / SCALE, *((each * lengths).tanh() for each in _SHARPNESS)], dim=1)
