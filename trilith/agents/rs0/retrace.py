"""Retrace (Munos et al. 2016): off-policy targets for action values, over sequences that another policy played."""

from __future__ import annotations

import torch
from torch import Tensor


def retrace(rewards: Tensor, values: Tensor, taken: Tensor, trace: Tensor, count: Tensor, discount: float) -> Tensor:
    """(B, T): targets for the values of the actions taken in sequences of T steps. They mean nothing from step `count` on.

    `rewards` (B, T): of the steps. `values` (B, T + 1): of their states and of the state after the last step, under the learned
    policy. `taken` (B, T): the critic's values of the actions taken. `trace` (B, T): λ min(1, π/μ) of these actions. `count` (B,): how
    many of the T + 1 states are real. If fewer than T + 1, the episode ended with the last real one, and all later values are 0.

        G_t = r_t + γ (V(s_t+1) + c_t+1 (G_t+1 - Q(s_t+1, a_t+1)))

    The trace belongs to the *next* action, because the target is for the action taken at this step, however likely it was. After the
    last step of the window there is no next action, so the value of the state replaces all later rewards.
    """
    length = rewards.shape[1]
    goes_on = torch.arange(1, length + 1, device=rewards.device) < count[:, None]
    target = torch.zeros_like(rewards)
    later = torch.zeros_like(rewards[:, 0])
    """Trace of the next action times the difference between its target and the critic's value."""
    for t in reversed(range(length)):
        # torch.where, not a product: after the end of an episode there may be any number, even NaN
        following = torch.where(goes_on[:, t], values[:, t + 1] + later, 0.0)
        target[:, t] = rewards[:, t] + discount * following
        later = trace[:, t] * (target[:, t] - taken[:, t])
    return target
