"""Retrace (Munos et al. 2016): off-policy targets for action values, over sequences that another policy played."""

from __future__ import annotations

import torch
from torch import Tensor


def retrace(rewards: Tensor, values: Tensor, taken: Tensor, trace: Tensor, count: Tensor, discount: float) -> Tensor:
    """Returns targets (B, T) for the values of the actions taken in B sequences of T steps. Targets of steps after the end of an episode
    are meaningless.

    `rewards` (B, T) has the rewards of the steps. `values` (B, T + 1) has the values, under the learned policy, of the states of these
    steps and of the state after the last step. `taken` (B, T) has the critic's values of the actions taken. `trace` (B, T) has λ min(1,
    π/μ) of these actions, where π is the density of an action under the learned policy, and μ under the policy that played. `count` (B,) is
    the number of real states among the T + 1 of a sequence. If there are fewer than T + 1, the episode ended with the action in the last
    real state, and all later values are 0.

        G_t = r_t + γ (V(s_t+1) + c_t+1 (G_t+1 - Q(s_t+1, a_t+1)))

    The trace c is that of the *next* action. The current action needs no trace, because the target is the value of this action, regardless
    of its probability. After the last step of a sequence there is no next action, so the return is bootstrapped from the value of the last
    state.
    """
    length = rewards.shape[1]
    goes_on = torch.arange(1, length + 1, device=rewards.device) < count[:, None]
    target = torch.zeros_like(rewards)
    later = torch.zeros_like(rewards[:, 0])
    """(B,): the trace of the action in the next step, times the difference between its target and the critic's value."""
    for t in reversed(range(length)):
        # torch.where, not a product: after the end of an episode there may be any number, even NaN
        following = torch.where(goes_on[:, t], values[:, t + 1] + later, 0.0)
        target[:, t] = rewards[:, t] + discount * following
        later = trace[:, t] * (target[:, t] - taken[:, t])
    return target
