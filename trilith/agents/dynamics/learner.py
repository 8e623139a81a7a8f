"""The learner of a transition model (paper §E.3). The model is unrolled for up to 4 steps, each from its own previous prediction, and the
losses compare these predictions with the simulator.

We depart from the paper's formula of the loss in two ways. The paper's divergence of the predicted from the true end of an episode is
infinite if the end is certain; ours is KL(truth ‖ prediction). The first term of the paper's sum over steps compares the input with itself;
our sum begins with the first prediction.

The poses after a block has touched an obstacle are not learned, because the episode ends there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import isfinite
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from trilith.agents.dynamics.config import ModelConfig
from trilith.agents.dynamics.transitions import Transitions
from trilith.agents.target_learner import load_moments, moments_of, optimizer_step, part, prefixed, scheduled_rate
from trilith.networks.dynamics.base import Predicted
from trilith.networks.dynamics.registry import make_dynamics
from trilith.networks.inputs.rigid_body_features import Array, Placed
from trilith.networks.parameters import load_parameters, parameters_of
from trilith.world.scene import Bools, Ints, Role

MODEL_WARMUP_STEPS = 200
"""Number of learner steps over which the learning rate rises to its maximum."""
MODEL_MAX_GRAD_NORM = 10.0
"""Maximum norm of gradients, which are clipped to it."""
_TURN = 0.5
"""Factor that converts errors of angles to metres. The error of an angle is the distance between two unit vectors, one at twice the
predicted angle and one at twice the true angle."""


def touchable(role: Ints, objects: Ints) -> Bools:
    """Mask (B, R, R) of the pairs of objects that can touch, in B scenes of up to R objects: two different solid objects, at least one of
    which is a block. `role` (B, R) has the role of each object, `objects` (B,) the number of objects in each scene."""
    there = (role != Role.TARGET) & (np.arange(role.shape[1]) < objects[:, None])
    block = role == Role.BLOCK
    return there[:, :, None] & there[:, None] & (block[:, :, None] | block[:, None]) & ~np.eye(role.shape[1], dtype=bool)


def contacts(predicted: Predicted, placed: Placed) -> tuple[Bools, Bools]:
    """Returns two masks (B, R, R) of the pairs of objects in B predicted scenes of up to R objects: those that touch, and those that are
    glued. `placed` has the same scenes before anything moves.

    A pair is glued if it was glued before. It is also glued if it touches, one of the two is a sticky block, and the other is a block or
    the floor.
    """
    touch = (predicted.touch.detach().numpy() > 0) & touchable(placed.role, placed.objects)
    bonds = np.isin(placed.role, (Role.BLOCK, Role.FLOOR))
    glue = placed.glue | (touch & (placed.sticky[:, :, None] | placed.sticky[:, None]) & bonds[:, :, None] & bonds[:, None])
    return touch, glue


def onward(table: Transitions, at: Ints, predicted: Predicted, placed: Placed, sign: Array | None = None) -> tuple[Bools, Placed, Tensor]:
    """Continues B predicted scenes by one step: adds the next block of the same episode to each. `at` (B,) are the rows of the table whose
    results were predicted, and `placed` has their scenes before anything moves.

    Returns three values: a mask (B,) of the C scenes that have a next placement in the table, these C scenes with the new block, and the
    poses (C, R, 3) of their objects. Gradients flow through these poses to the predictions.

    New blocks have their poses from the table. `sign` (B, 3), if given, is 1 or -1 for x, y and angle in each scene. The poses of new
    blocks are multiplied by it, because the scenes may be mirrored.
    """
    chosen = table.follows[at] >= 0
    touch, glue = contacts(predicted, placed)
    nxt = table.follows[at[chosen]]
    true = table.placed(nxt)
    origin = table["origin"][nxt]
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
    """Draws placements of the table to learn from. Returns their indices (size,) and importance weights (size,). Half of the placements are
    drawn from `Transitions.eventful`, unless it is empty. A weight is inversely proportional to the probability of drawing its
    placement."""
    share, count = (0.5, len(table.eventful)) if len(table.eventful) else (0.0, 1)
    preferred = rng.random(size) < share
    eventful = table.eventful[rng.integers(count, size=size)] if share else 0
    at = np.where(preferred, eventful, rng.integers(len(table), size=size))
    often = share * len(table) / count * table["moved"][at].any(axis=1) + 1 - share
    return at, np.asarray(1 / often, np.float32)


def losses(predicted: Predicted, placed: Placed, table: Transitions, at: Ints, pose: Tensor, weight: Array) -> dict[str, Tensor]:
    """Returns the losses by name: pose, moves, touch, end, reward. Each is a sum over B scenes. `predicted` is compared with the true
    results in the rows `at` (B,) of the table. `placed` has the scenes before anything moves.

    `pose` (B, R, 3) has the true poses at rest; they must be mirrored where `placed` is. `weight` (B,) has the weight of each scene in all
    losses but "pose". The loss "pose" counts only blocks that moved.
    """
    cross_entropy = partial(F.binary_cross_entropy_with_logits, reduction="none")
    counts = torch.from_numpy(weight)
    settled = torch.from_numpy(~table["hit"][at])
    loose = torch.from_numpy(~predicted.fixed) & settled[:, None]
    moved = torch.from_numpy(table["moved"][at]) & settled[:, None]
    twice = 2 * pose[..., 2]
    off = (predicted.base[..., :2] + predicted.shift - pose[..., :2]).square().sum(-1)
    off = off + _TURN**2 * (predicted.turn - torch.stack([twice.cos(), twice.sin()], -1)).square().sum(-1)
    length = ((off + 1e-4).sqrt() * moved).sum()
    moves = cross_entropy(predicted.moves, moved.float()) * loose
    pairs = torch.from_numpy(np.triu(touchable(placed.role, placed.objects))) & settled[:, None, None]
    touch = cross_entropy(predicted.touch, torch.from_numpy(table["touch"][at]).float()) * pairs
    hit = cross_entropy(predicted.hit, (~settled).float())
    complete = cross_entropy(predicted.complete, torch.from_numpy(table["complete"][at]).float()) * settled
    reward = (predicted.reward - torch.from_numpy(table["reward"][at])).square()
    return {
        "pose": length,
        "moves": moves.sum(dim=1) @ counts,
        "touch": touch.sum(dim=(1, 2)) / 4 @ counts,
        "end": (hit + complete) @ counts,
        "reward": reward @ counts,
    }


class ModelLearner:
    """The learner of a transition model: its network, its optimiser, and the number of learner steps."""

    def __init__(self, config: ModelConfig, seed: int) -> None:
        torch.manual_seed(seed)
        self.config = config
        self.net = make_dynamics(config.net)
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=config.learning_rate)
        self.steps = 0

    def step(self, table: Transitions, rng: np.random.Generator) -> dict[str, float]:
        """Makes one learner step on placements drawn from the table. Returns mean losses per scene: each loss of the first predicted step
        by its name, and `loss`, the sum of all losses over all predicted steps. Raises ValueError if this sum is not finite."""
        config = self.config
        at, weight = draw(table, rng, config.batch)
        sign = np.where(rng.random((config.batch, 1)) < 0.5, np.array([-1, 1, -1]), np.ones(3)).astype(np.float32)
        placed = table.placed(at)
        placed = placed._replace(pose=placed.pose * sign[:, None])
        if config.noise:
            shift = rng.normal(0, config.noise, (*placed.role.shape, 2)).astype(np.float32)
            placed.pose[..., :2] += shift * (placed.role == Role.BLOCK)[..., None]
        pose: Tensor | None = None
        parts: list[dict[str, Tensor]] = []
        for k in range(config.unroll):
            predicted = self.net(placed, pose)
            parts.append(losses(predicted, placed, table, at, torch.from_numpy(table["pose"][at] * sign[:, None]), weight))
            if k + 1 == config.unroll or (table.follows[at] < 0).all():
                break
            chosen, placed, pose = onward(table, at, predicted, placed, sign)
            at, sign, weight = table.follows[at[chosen]], sign[chosen], weight[chosen]
        total = (
            torch.stack([sum(each.values(), start=torch.zeros(())) for each in parts]).sum() / config.batch
        )  # the parts need no weights, because they are about equal at first
        loss = float(total.detach())
        if not isfinite(loss):
            raise ValueError(f"the loss is {loss} at step {self.steps} of the model: it has diverged, try a lower learning rate")
        optimizer_step(
            self.optimiser, total, scheduled_rate(config.learning_rate, self.steps, MODEL_WARMUP_STEPS, config.steps), MODEL_MAX_GRAD_NORM
        )
        self.steps += 1
        return {name: float(value.detach()) / config.batch for name, value in parts[0].items()} | {"loss": loss}

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The content of a checkpoint as two dictionaries: arrays by name, and numbers by name."""
        return prefixed({"net.": parameters_of(self.net), "optimiser.": moments_of(self.optimiser)}), {"steps": self.steps}

    def load(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Resumes from a checkpoint. `arrays` and `facts` are the two dictionaries that `state` returned. Raises ValueError if they do not
        fit the network."""
        load_parameters(self.net, part(arrays, "net."))
        load_moments(self.optimiser, part(arrays, "optimiser."))
        self.steps = int(facts["steps"])
