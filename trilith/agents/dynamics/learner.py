"""Learning a model: predictions of predictions, 1 to 4 steps on, compared with what happened (paper §E.3).

As printed, the divergence is infinite for an end that is certain, and the first term of the sum compares the input with itself: here
it is KL(truth ‖ prediction), and steps count from 1. An obstacle that is touched ends an episode, and where things were at that
moment is not learned: nothing is ever built on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from trilith.agents.dynamics.config import DynamicsConfig, ModelConfig
from trilith.agents.dynamics.rigid_body_features import FALL, Array, Placed, bodies, falls
from trilith.agents.dynamics.transitions import Transitions
from trilith.agents.optimizer import load_moments, moments_of, optimizer_step, part, prefixed, scheduled_rate
from trilith.networks.dynamics import Dynamics, DynamicsInput, Predicted
from trilith.networks.parameters import load_parameters, parameters_of
from trilith.world.scene import Bools, Ints, Role

WARM_UP = 200
"""Learner steps until the learning rate is what it shall be."""
CLIP = 10.0
"""Of the norm of gradients."""
_TURN = 0.5
"""Metres that the unit vector of twice an angle counts for."""


def make_net(config: DynamicsConfig) -> Dynamics:
    """A network whose weights mean nothing yet."""
    return Dynamics(FALL, config.width, config.layers, config.heads, config.pair)


def given(placed: Placed, pose: Tensor | None = None) -> DynamicsInput:
    """What the network is shown of placements; `pose` is that of `placed` if gradients shall pass."""
    same, fixed = bodies(placed.glue, placed.role, placed.objects)
    links = np.stack([placed.touch, placed.glue, same], axis=-1).astype(np.float32)
    fall = falls(placed.pose, placed.size, placed.role, placed.sticky, placed.objects, placed.new)
    where = torch.from_numpy(placed.pose) if pose is None else pose
    return DynamicsInput(placed.objects, placed.new, where, placed.size, placed.role, placed.sticky, fixed, links, fall)


def contacts(predicted: Predicted, placed: Placed) -> tuple[Bools, Bools]:
    """(B, R, R) each: who touches whom in the predicted scenes, and who is bonded: what was, and what touches something sticky."""
    solid, block = placed.role != Role.TARGET, placed.role == Role.BLOCK
    can = solid[:, :, None] & solid[:, None] & (block[:, :, None] | block[:, None])
    there = np.arange(placed.role.shape[1]) < placed.objects[:, None]
    touch = (predicted.touch.detach().numpy() > 0) & can & there[:, :, None] & there[:, None] & ~np.eye(can.shape[1], dtype=bool)
    bonds = block | (placed.role == Role.FLOOR)
    glue = placed.glue | (touch & (placed.sticky[:, :, None] | placed.sticky[:, None]) & bonds[:, :, None] & bonds[:, None])
    return touch, glue


def onward(table: Transitions, at: Ints, predicted: Predicted, placed: Placed, sign: Array | None = None) -> tuple[Bools, Placed, Tensor]:
    """The next placements, made in the predicted scenes: which of `at` (B,) have one, and the scenes of those then.

    Poses of the table are multiplied by `sign` (B, 3), which mirrors a scene. Gradients pass through the poses that are returned.
    """
    chosen = table.follows[at] >= 0
    touch, glue = contacts(predicted, placed)
    nxt = table.follows[at[chosen]]
    true = table.placed.take(nxt)
    origin = table.origin[nxt]
    known = origin >= 0
    from_ = np.where(known, origin, 0)
    before = predicted.pose[torch.from_numpy(chosen.nonzero()[0])]
    gathered = before.gather(1, torch.from_numpy(from_)[..., None].expand(-1, -1, 3))
    spawn = true.pose if sign is None else true.pose * sign[chosen][:, None]
    pose = torch.where(torch.from_numpy(known)[..., None], gathered, torch.from_numpy(spawn))
    row = np.arange(len(nxt))[:, None, None]
    both = known[:, :, None] & known[:, None]
    links = [each[chosen][row, from_[:, :, None], from_[:, None]] & both for each in (touch, glue)]
    return chosen, true._replace(pose=pose.detach().numpy().copy(), touch=links[0], glue=links[1]), pose


def draw(table: Transitions, rng: np.random.Generator, size: int) -> tuple[Ints, Array]:
    """(size,) placements, half of them of those that moved something, which are few; and what each counts for so that none is preferred."""
    eventful = table.eventful
    share = 0.5 if len(eventful) else 0.0
    at = np.where(
        rng.random(size) < share,
        eventful[rng.integers(max(len(eventful), 1), size=size)] if share else 0,
        rng.integers(len(table), size=size),
    )
    often = share * len(table) / max(len(eventful), 1) * table.moved[at].any(axis=1) + 1 - share
    return at, np.asarray(1 / often, np.float32)


class Losses(NamedTuple):
    """Of one step of a batch, each a sum over its scenes."""

    pose: Tensor
    moves: Tensor
    touch: Tensor
    end: Tensor
    reward: Tensor

    @property
    def total(self) -> Tensor:
        """As they are weighed: about equal at the beginning. Weights are ours."""
        return self.pose + self.moves + self.touch + self.end + self.reward


def losses(predicted: Predicted, shown: DynamicsInput, table: Transitions, at: Ints, pose: Tensor, weight: Array) -> Losses:
    """Compares predictions with what came of the placements `at` (B,), where everything came to rest at `pose` (B, R, 3).

    Placements count as `weight` (B,) says, but for where a block ends that moves: that is asked only if it does.
    """
    counts = torch.from_numpy(weight)
    settled = torch.from_numpy(~table.hit[at])
    loose = torch.from_numpy(~shown.fixed) & settled[:, None]
    moved = torch.from_numpy(table.moved[at]) & settled[:, None]
    twice = 2 * pose[..., 2]
    off = (predicted.base[..., :2] + predicted.shift - pose[..., :2]).square().sum(-1)
    off = off + _TURN**2 * (predicted.turn - torch.stack([twice.cos(), twice.sin()], -1)).square().sum(-1)
    length = ((off + 1e-4).sqrt() * moved).sum()
    moves = F.binary_cross_entropy_with_logits(predicted.moves, moved.float(), reduction="none") * loose
    block, solid = shown.role == Role.BLOCK, shown.role != Role.TARGET
    there = np.arange(shown.role.shape[1]) < shown.objects[:, None]
    can = (solid & there)[:, :, None] & (solid & there)[:, None] & (block[:, :, None] | block[:, None])
    pairs = torch.from_numpy(np.triu(can, 1)) & settled[:, None, None]
    touch = F.binary_cross_entropy_with_logits(predicted.touch, torch.from_numpy(table.touch[at]).float(), reduction="none")
    hit = F.binary_cross_entropy_with_logits(predicted.hit, (~settled).float(), reduction="none")
    done = torch.from_numpy(table.complete[at]).float()
    complete = F.binary_cross_entropy_with_logits(predicted.complete, done, reduction="none") * settled
    reward = (predicted.reward - torch.from_numpy(table.reward[at])).square()
    touch = (touch * pairs).sum(dim=(1, 2)) / 4
    return Losses(length, moves.sum(dim=1) @ counts, touch @ counts, (hit + complete) @ counts, reward @ counts)


class ModelLearner:
    """A network, its optimiser, and where it stands."""

    def __init__(self, config: ModelConfig, seed: int) -> None:
        torch.manual_seed(seed)
        self.config = config
        self.net = make_net(config.net)
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=config.learning_rate)
        self.steps = 0

    def step(self, table: Transitions, rng: np.random.Generator) -> dict[str, float]:
        """One learner step; returns the mean loss of a scene: of its first step by part, and in all."""
        config = self.config
        at, weight = draw(table, rng, config.batch)
        sign = np.where(rng.random((config.batch, 1)) < 0.5, np.array([-1, 1, -1]), np.ones(3)).astype(np.float32)
        placed = table.placed.take(at)
        placed = placed._replace(pose=placed.pose * sign[:, None])
        if config.noise:
            shift = rng.normal(0, config.noise, (*placed.role.shape, 2)).astype(np.float32)
            placed.pose[..., :2] += shift * (placed.role == Role.BLOCK)[..., None]
        pose: Tensor | None = None
        parts: list[Losses] = []
        for k in range(config.unroll):
            shown = given(placed, pose)
            predicted = self.net(shown)
            parts.append(losses(predicted, shown, table, at, torch.from_numpy(table.pose[at] * sign[:, None]), weight))
            if k + 1 == config.unroll or (table.follows[at] < 0).all():
                break
            chosen, placed, pose = onward(table, at, predicted, placed, sign)
            at, sign, weight = table.follows[at[chosen]], sign[chosen], weight[chosen]
        total = torch.stack([each.total for each in parts]).sum() / config.batch
        loss = float(total.detach())
        if not isfinite(loss):
            raise ValueError(f"the loss is {loss} at step {self.steps} of the model: it has diverged, try a lower learning rate")
        optimizer_step(self.optimiser, total, scheduled_rate(config.learning_rate, self.steps, WARM_UP, config.steps), CLIP)
        self.steps += 1
        return {name: float(getattr(parts[0], name).detach()) / config.batch for name in Losses._fields} | {"loss": loss}

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """What a checkpoint keeps."""
        return prefixed({"net.": parameters_of(self.net), "optimiser.": moments_of(self.optimiser)}), {"steps": self.steps}

    def load(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Takes back what `state` gave. Raises ValueError in one line if it is of another network."""
        load_parameters(self.net, part(arrays, "net."))
        load_moments(self.optimiser, part(arrays, "optimiser."))
        self.steps = int(facts["steps"])
