"""Retrace (Munos et al. 2016): what actions turned out to be worth, over sequences that another policy played."""

from __future__ import annotations

import torch
from torch import Tensor


def retrace(rewards: Tensor, values: Tensor, taken: Tensor, trace: Tensor, count: Tensor, discount: float) -> Tensor:
    """(B, T): targets for the values of the actions taken in sequences of T steps; they mean nothing from step `count` on.

    `rewards` (B, T) of the steps; `values` (B, T + 1) of their states, and of the state after the last, under the policy that is
    learnt; `taken` (B, T): the critic's values of the actions taken; `trace` (B, T): λ min(1, π/μ) of them; `count` (B,): how
    many of the T + 1 states there are. Fewer than T + 1: the episode ended with the last of them, after which nothing is worth anything.

        G_t = r_t + γ (V(s_t+1) + c_t+1 (G_t+1 - Q(s_t+1, a_t+1)))

    The trace is that of the *next* action: the one of this step was taken, however likely it was. After the last step of the
    window there is no next action, and the value of the state stands for all that follows.
    """
    length = rewards.shape[1]
    goes_on = torch.arange(1, length + 1, device=rewards.device) < count[:, None]
    target = torch.zeros_like(rewards)
    later = torch.zeros_like(rewards[:, 0])
    """What the next action turned out to be worth beyond what the critic said, as far as its trace reaches."""
    for t in reversed(range(length)):
        # torch.where, not a product: beyond an end there may be anything, even what is not a number
        following = torch.where(goes_on[:, t], values[:, t + 1] + later, 0.0)
        target[:, t] = rewards[:, t] + discount * following
        later = trace[:, t] * (target[:, t] - taken[:, t])
    return target
