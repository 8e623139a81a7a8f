"""One step of deep Q-learning, with what demonstrations and searches add to its loss."""

from __future__ import annotations

from math import cos, isfinite, pi
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dqn.policy import make_net
from trilith.agents.replay import Replay, Sample, joined
from trilith.nets.batch import Layout
from trilith.nets.device import pick_device
from trilith.nets.qnet import QNet
from trilith.world.scene import Bools, Ints


class Valued(NamedTuple):
    """What the learning network says of the states of a sample."""

    taken: Tensor
    """(B,): the values of what was done in them."""
    every: Tensor
    """(W, A): the values of all actions in the first W, -inf where there is none."""
    done: Tensor
    """(W,): which of these was done."""
    tried: Tensor
    """(W, K): which of these a search tried; -1 for none."""


class DQNLearner:
    """The learning network, its target and its optimiser, and one step of learning, all on one device."""

    def __init__(self, config: DQNConfig, layout: Layout, seed: int, device: str = "cpu") -> None:
        self.config, self.layout, self.device = config, layout, pick_device(device)
        torch.manual_seed(seed)  # the first weights come from the CPU's generator, so they are the same on every device
        self.net, self.target = make_net(config, layout), make_net(config, layout)
        self.target.load_state_dict(self.net.state_dict())
        self.target.requires_grad_(False)
        self.net.to(self.device)
        self.target.to(self.device)
        fused = self.device.type in ("cpu", "cuda")
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=config.learning_rate, fused=fused)
        self.steps = 0

    @property
    def acting(self) -> QNet:
        """The network to evaluate and to keep."""
        return self.target if self.config.act_with_target and self.config.target_rate else self.net

    def learn(self, replay: Replay, rng: np.random.Generator, shown: Replay | None = None) -> dict[str, float]:
        """One learner step on transitions of the replay and of demonstrations `shown`, if any; returns figures for the log."""
        config = self.config
        demos = round(config.demonstration_share * config.batch) if shown else 0
        sample = replay.sample(rng, config.batch - demos, config.n_step)
        if shown and demos:
            sample = joined(shown.sample(rng, demos, config.n_step), sample)
        mirror = rng.random(config.batch) < 0.5 if config.mirror else np.zeros(config.batch, dtype=bool)
        wanted = self._targets(sample)
        # Of most transitions the value of one action is all that is needed; of demonstrated and searched ones those of all are.
        weight = config.margin_weight * (max(1 - self.steps / config.margin_steps, 0.0) if config.margin_steps else 1.0)
        values = self._values(sample, mirror, config.batch if config.amortise else demos if weight else 0)
        loss = F.huber_loss(values.taken, wanted)
        if demos and weight:
            loss = loss + weight * shortfall(values.every[:demos], values.done[:demos], config.margin).sum() / config.batch
        if config.amortise:
            found = torch.from_numpy(sample.found).to(self.device)
            loss = loss + config.amortise * surprise(values.every, values.tried, found, config.temperature).mean()
        figures = read({"loss": loss.detach(), "value": values.taken.detach().mean()})
        if not isfinite(figures["loss"]):
            raise ValueError(
                f"the loss is {figures['loss']} at learner step {self.steps}: the network has diverged, try a lower learning rate"
            )
        self._descend(loss)
        return figures

    def _values(self, sample: Sample, mirror: Bools, whole: int) -> Valued:
        """What the learning network says of a sample, some of it mirrored, and of the first `whole` of it in full."""
        batch = self.layout.unpack(sample.records, mirror, self.device)
        actions = self._mirrored(sample.actions, mirror)
        if not whole:
            taken = self.net.q_at(batch, actions)
            return Valued(taken, taken.new_zeros(0, 0), actions[:0, 0], actions[:0])
        every, taken = self.net.q_both(batch, actions, whole)
        head = batch[:whole]
        every = every.masked_fill(~self.net.mask(head), -torch.inf).flatten(1)
        columns = [self._mirrored(sample.tried[:whole, k], mirror[:whole]) for k in range(sample.tried.shape[1])]
        places = [self.net.flat(head, column).masked_fill(column[:, 0] < 0, -1) for column in columns]
        tried = torch.stack(places, dim=1) if places else actions.new_zeros(whole, 0)
        return Valued(taken, every, self.net.flat(head, actions[:whole]), tried)

    def _mirrored(self, actions: Ints, mirror: Bools) -> Tensor:
        return torch.from_numpy(self.layout.mirror_actions(actions, mirror) if mirror.any() else actions).to(self.device)

    def _targets(self, sample: Sample) -> Tensor:
        """(B,): rewards and, where the episode went on, the discounted value of what followed."""
        wanted = torch.from_numpy(sample.returns).float().to(self.device)
        goes_on = np.flatnonzero(sample.discounts)
        if not len(goes_on):
            return wanted
        with torch.no_grad():
            batch = self.layout.unpack(sample.following[goes_on], device=self.device)
            best, value = (self.net if self.config.double else self.target).best(batch)
            some = torch.isfinite(value)  # no action left is worth nothing, as is the end that choosing one would bring
            if self.config.double:
                value = self.target.q_at(batch, best.clamp(min=0))
            if self.config.stop:
                value = value.clamp(min=0)
            discounts = torch.from_numpy(sample.discounts[goes_on]).float().to(self.device)
            return wanted.index_add(0, torch.from_numpy(goes_on).to(self.device), discounts * torch.where(some, value, 0.0))

    def _descend(self, loss: Tensor) -> None:
        """One step of the optimiser, at the learning rate of the moment, after which the target follows."""
        config = self.config
        rate = config.learning_rate * min(1.0, (self.steps + 1) / max(config.warmup, 1))
        if config.decay_steps:
            rate *= 0.55 + 0.45 * cos(pi * min(self.steps / config.decay_steps, 1.0))
        self.optimiser.param_groups[0]["lr"] = rate
        self.optimiser.zero_grad()
        loss.backward()
        if config.clip:
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), config.clip)
        self.optimiser.step()
        self.steps += 1
        with torch.no_grad():
            if config.target_rate:
                # Early on the average covers only the steps there have been, so that the target does not lag behind.
                rate = max(config.target_rate, 1 / (self.steps + 1))
                torch._foreach_lerp_(list(self.target.parameters()), list(self.net.parameters()), rate)
            elif self.steps % config.target_period == 0:
                self.target.load_state_dict(self.net.state_dict())


def read(figures: dict[str, Tensor]) -> dict[str, float]:
    """Figures as numbers, in one copy: a device is waited for here, and nowhere else in a learner step."""
    return dict(zip(figures, torch.stack(list(figures.values())).tolist(), strict=True))


def shortfall(values: Tensor, shown: Tensor, margin: float) -> Tensor:
    """(B,): by how much the values of demonstrated actions fail to exceed all others by a margin (Hester et al. 2018).

    `values` (B, A) are -inf where there is no action, `shown` (B,) says which was demonstrated.
    """
    own = values.gather(1, shown[:, None])
    return (values + margin).scatter(1, shown[:, None], own).max(dim=1).values - own[:, 0]


def surprise(values: Tensor, tried: Tensor, found: Tensor, temperature: float) -> Tensor:
    """(B,): cross-entropy between what searches found and what the network says, both as a softmax; 0 where nothing was searched.

    `values` (B, A) are -inf where there is no action, `tried` (B, K) says which actions were tried, -1 for none, and `found` (B, K)
    what they turned out to be worth. Only what was tried is compared: what was found is from another time than the network's
    values, which rise as it learns, and beside the values of today all that was tried long ago would look bad.
    """
    none = tried < 0
    nothing = none.all(dim=1)
    # Where nothing was searched all would be -inf, whose softmax is not a number: 0 goes in instead, and what comes out is not used.
    own = values.gather(1, tried.clamp(min=0))
    given = (each.masked_fill(none, -torch.inf).masked_fill(nothing[:, None], 0.0) for each in (own, found))
    said, wanted = ((each / temperature).log_softmax(dim=1) for each in given)
    return -(wanted.exp() * said.nan_to_num(neginf=0.0)).sum(dim=1).masked_fill(nothing, 0.0)
