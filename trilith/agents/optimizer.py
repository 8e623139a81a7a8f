"""What learners do alike with their networks and optimisers: descend, let a target follow, and keep both as arrays by name, and back."""

from __future__ import annotations

from collections.abc import Mapping
from math import cos, pi
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trilith.networks.q.function import check_weights


def scheduled_rate(rate: float, step: int, warmup: int, decay_steps: int) -> float:
    """The learning rate at a step: risen from 0 over `warmup` steps, fallen to a tenth over `decay_steps` along a cosine (0: not)."""
    rate *= min(1.0, (step + 1) / max(warmup, 1))
    return rate * (0.55 + 0.45 * cos(pi * min(step / decay_steps, 1.0))) if decay_steps else rate


def optimizer_step(optimiser: torch.optim.Adam, loss: Tensor, rate: float, clip: float) -> None:
    """One step of an optimiser down a loss, the norm of gradients clipped unless `clip` is 0."""
    [group] = optimiser.param_groups
    group["lr"] = rate
    optimiser.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_(group["params"], clip)
    optimiser.step()


def polyak_update(target: nn.Module, net: nn.Module, rate: float, steps: int) -> None:
    """Moves a target by a share towards the network that has had so many steps.

    Early on the average covers only the steps there have been, so that the target does not lag behind.
    """
    with torch.no_grad():
        torch._foreach_lerp_(list(target.parameters()), list(net.parameters()), max(rate, 1 / (steps + 1)))


def parameters_of(module: nn.Module) -> dict[str, NDArray[Any]]:
    """A copy of a network's parameters by their names."""
    return {name: value.cpu().numpy().copy() for name, value in module.state_dict().items()}


def load_parameters(module: nn.Module, weights: Mapping[str, NDArray[Any]]) -> None:
    """Gives a network parameters by their names. Raises ValueError in one line, and changes nothing, if they are not its own."""
    check_weights({name: tuple(value.shape) for name, value in module.state_dict().items()}, weights)
    module.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})


def moments_of(optimiser: torch.optim.Adam) -> dict[str, NDArray[Any]]:
    """What Adam knows of each parameter, by the parameter's number."""
    return {
        f"{index}.{name}": value.cpu().numpy()
        for index, slots in optimiser.state_dict()["state"].items()
        for name, value in slots.items()
    }  # fmt: skip


def check_moments(optimiser: torch.optim.Adam, moments: Mapping[str, NDArray[Any]]) -> None:
    """Raises ValueError if they are not of these parameters: an optimiser writes where its moments are, whatever their shape.

    None at all are those of an optimiser that has not stepped yet.
    """
    wanted = {
        f"{index}.{name}": (() if name == "step" else tuple(parameter.shape), np.dtype(np.float32))
        for index, parameter in enumerate(each for group in optimiser.param_groups for each in group["params"])
        for name in ("step", "exp_avg", "exp_avg_sq")
    }
    if moments and {name: (array.shape, array.dtype) for name, array in moments.items()} != wanted:
        raise ValueError("the state of its optimiser is not of this network")


def load_moments(optimiser: torch.optim.Adam, moments: Mapping[str, NDArray[Any]]) -> None:
    """Takes back what `moments_of` gave."""
    check_moments(optimiser, moments)
    state: dict[int, dict[str, Tensor]] = {}
    for name, array in moments.items():
        index, slot = name.split(".")
        state.setdefault(int(index), {})[slot] = torch.from_numpy(np.array(array))
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


def part(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Those of some arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
