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
"""Maximum standard deviation of the numbers of an action: half of the width of their range. Without a maximum, the entropy bonus would let
standard deviations grow without limit. Nothing would stop this, because actions are clipped to the range, so the critic has no gradient
outside."""


class Mixture(NamedTuple):
    """A mixture of M Gaussians over actions of A numbers, in each of B states. Within a Gaussian the A numbers are independent."""

    log_weight: Tensor
    """(B, M): in each state, the logarithm of the weight of each component."""
    mean: Tensor
    """(B, M, A): in each state, the mean of each component."""
    scale: Tensor
    """(B, M, A): in each state, the standard deviations of each component."""

    def log_density(self, actions: Tensor) -> Tensor:
        """The logarithm (B, K) of the density of K actions in each of B states. `actions` (B, K, A) has their numbers."""
        off = (actions[:, :, None] - self.mean[:, None]) / self.scale[:, None]
        each = -0.5 * off.square().sum(-1) - self.scale.log().sum(-1)[:, None] - 0.5 * actions.shape[-1] * log(2 * pi)
        return each[..., 0] if each.shape[-1] == 1 else torch.logsumexp(each + self.log_weight[:, None], dim=-1)

    def draw(self, chance: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Draws K actions, each of A numbers, in each of B states. Returns the index of the component of each action (B, K), and the
        actions (B, K, A). The caller supplies the random numbers: `chance` (B, K) is uniform, and `noise` (B, K, A) is standard normal.

        Actions are differentiable with respect to means and scales. The choice of a component is not differentiable.
        """
        steps = self.log_weight.detach().exp().cumsum(dim=1)
        chosen = (chance[:, :, None] * steps[:, None, -1:] >= steps[:, None]).sum(-1).clamp(max=steps.shape[1] - 1)
        rows = chosen[..., None].expand(-1, -1, self.mean.shape[-1])
        return chosen, self.mean.gather(1, rows) + self.scale.gather(1, rows) * noise

    def likeliest(self) -> Tensor:
        """The mean (B, A) of the component with the highest weight in each state."""
        best = self.log_weight.argmax(dim=1)
        return self.mean[torch.arange(len(best)), best]


@dataclass(frozen=True)
class Head:
    """Converts the raw outputs of a network to a mixture of Gaussians. Means are linear in the raw outputs. A sigmoid keeps standard
    deviations within their limits."""

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
        """Number of raw outputs per state that a mixture needs. Only for networks that do not point at objects."""
        return self.components * (2 * self.actions + (self.components > 1))

    def mixture(self, raw: Tensor) -> Mixture:
        """Makes the mixture from the raw outputs of a network. `raw` (B, outputs) has, for each state, first all means, then all scales,
        then the logits of the components, if there are several."""
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
        """Numbers (M, A) that are added to the raw means. For a single component they are 0, so its initial mean is in the middle of the
        range of actions. For several components they are spread over the range."""
        if self.components == 1:
            return np.zeros((1, self.actions), np.float32)
        return np.random.default_rng(0).uniform(-0.7, 0.7, (self.components, self.actions)).astype(np.float32)


def log_explored(log_density: Tensor, actions: Tensor, epsilon: float, legal: float = 0.0) -> Tensor:
    """Returns the logarithm (B, K) of the density of actions under exploration. With probability ε (`epsilon`), an action is uniform over
    [-1, 1]ᴬ. With probability `legal` it is a random legal placement, which has no density here. Otherwise it is drawn from the policy.
    `actions` (B, K, A) has K actions of A numbers in each of B states. `log_density` (B, K) is the logarithm of their density under the
    policy alone."""
    own = log_density + log1p(-epsilon - legal) if epsilon + legal < 1 else torch.full_like(log_density, -torch.inf)
    if not epsilon:
        return own
    uniform = torch.where((actions.abs() <= 1).all(-1), log(epsilon) - actions.shape[-1] * log(2), -torch.inf)
    return torch.logaddexp(own, uniform)
