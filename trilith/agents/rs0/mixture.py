"""The policy as a distribution: a mixture of Gaussians, made from the raw outputs of a network. The paper's policy, a single Gaussian, is a
mixture with one component."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, log1p, pi
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MAX_SCALE = 1.0
"""Maximum standard deviation: half of the width of the range of actions. Without a maximum, the entropy bonus would make standard
deviations grow without limit: outside the range actions are clipped, so the critic has no gradient there that would counteract."""


class Mixture(NamedTuple):
    """A mixture of M Gaussians over actions of A numbers, in each of B states. Within a Gaussian the A numbers are independent."""

    log_weight: Tensor
    """(B, M): logarithm of the weight of each component."""
    mean: Tensor
    """(B, M, A): the means."""
    scale: Tensor
    """(B, M, A): the standard deviations."""

    def log_density(self, actions: Tensor) -> Tensor:
        """The logarithm (B, K) of the density of actions (B, K, A)."""
        off = (actions[:, :, None] - self.mean[:, None]) / self.scale[:, None]
        each = -0.5 * off.square().sum(-1) - self.scale.log().sum(-1)[:, None] - 0.5 * actions.shape[-1] * log(2 * pi)
        return each[..., 0] if each.shape[-1] == 1 else torch.logsumexp(each + self.log_weight[:, None], dim=-1)

    def draw(self, chance: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Draws K actions per state. Returns the index of the component of each action (B, K), and the actions (B, K, A). The caller
        supplies the random numbers: `chance` (B, K) is uniform, and `noise` (B, K, A) is standard normal.

        Actions are differentiable with respect to means and scales. The choice of a component is not differentiable.
        """
        steps = self.log_weight.detach().exp().cumsum(dim=1)
        chosen = (chance[:, :, None] * steps[:, None, -1:] >= steps[:, None]).sum(-1).clamp(max=steps.shape[1] - 1)
        rows = chosen[..., None].expand(-1, -1, self.mean.shape[-1])
        return chosen, self.mean.gather(1, rows) + self.scale.gather(1, rows) * noise

    def likeliest(self) -> Tensor:
        """The mean (B, A) of the component with the highest weight."""
        best = self.log_weight.argmax(dim=1)
        return self.mean[torch.arange(len(best)), best]


@dataclass(frozen=True)
class Head:
    """Converts the raw outputs of a network to a mixture. Means are linear in the raw outputs. A sigmoid keeps standard deviations within
    their limits."""

    actions: int
    """A, the length of an action."""
    components: int
    """M, the number of Gaussians."""
    scale: float
    """The standard deviation for a raw output of 0."""
    min_scale: float
    """The minimum standard deviation."""
    pointing: bool = False
    """Whether the network points at objects. If so, the number of components depends on the number of its outputs, and its means already
    include the positions of the objects."""

    @property
    def outputs(self) -> int:
        """Number of raw outputs that a mixture needs."""
        return self.components * (2 * self.actions + (self.components > 1))

    def mixture(self, raw: Tensor) -> Mixture:
        """Makes the mixture from raw outputs (B, outputs)."""
        a = self.actions
        m = raw.shape[1] // (2 * a + 1) if self.pointing else self.components
        mean, scale, weight = raw.split([m * a, m * a, raw.shape[1] - 2 * m * a], dim=1)
        mean = mean.reshape(-1, m, a)
        if not self.pointing:
            mean = mean + torch.from_numpy(self._apart()).to(raw.device)
        share = (self.scale - self.min_scale) / (MAX_SCALE - self.min_scale)
        scale = self.min_scale + (MAX_SCALE - self.min_scale) * torch.sigmoid(scale.reshape(-1, m, a) + log(share / (1 - share)))
        return Mixture(weight.log_softmax(dim=1) if m > 1 else raw.new_zeros(len(raw), 1), mean, scale)

    def _apart(self) -> NDArray[np.float32]:
        """The initial means (M, A). The mean of a single component is 0, the middle of the range of actions. The means of several
        components are spread over the range."""
        if self.components == 1:
            return np.zeros((1, self.actions), np.float32)
        return np.random.default_rng(0).uniform(-0.7, 0.7, (self.components, self.actions)).astype(np.float32)


def log_explored(log_density: Tensor, actions: Tensor, epsilon: float) -> Tensor:
    """The logarithm (B, K) of the density of actions (B, K, A) under exploration. With probability ε an action is uniform over [-1, 1]ᴬ,
    otherwise it is drawn from the policy. `log_density` (B, K) is its density under the policy alone."""
    if not epsilon:
        return log_density
    uniform = torch.where((actions.abs() <= 1).all(-1), log(epsilon) - actions.shape[-1] * log(2), -torch.inf)
    return torch.logaddexp(log_density + log1p(-epsilon), uniform) if epsilon < 1 else uniform
