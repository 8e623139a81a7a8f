"""Code shared by all learners: optimiser steps, the learning-rate schedule and target networks. Also converts the state of a learner to
named arrays and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import cos, isfinite, pi
from typing import Annotated, Any, Generic, TypedDict, TypeVar

import numpy as np
import torch
from msgspec import Meta
from numpy.typing import NDArray
from torch import Tensor, nn

from trilith.agents.replay import Replay
from trilith.networks.device import pick_device
from trilith.networks.parameters import load_parameters, parameters_of
from trilith.utils.files import typed

N = TypeVar("N", bound=nn.Module)


def scheduled_rate(rate: float, step: int, warmup: int, decay_steps: int) -> float:
    """The learning rate at a learner step, where `rate` is the maximum. Over the first `warmup` steps the rate rises linearly. Over the
    first `decay_steps` steps it also falls along a cosine, to a tenth. If `decay_steps` is 0, the rate does not fall."""
    rate *= min(1.0, (step + 1) / max(warmup, 1))
    return rate * (0.55 + 0.45 * cos(pi * min(step / decay_steps, 1.0))) if decay_steps else rate


def optimizer_step(optimiser: torch.optim.Adam, loss: Tensor, rate: float, clip: float) -> None:
    """Makes one optimiser step on a loss, with the learning rate `rate`. The norm of the gradients is clipped to `clip`, unless `clip` is
    0."""
    [group] = optimiser.param_groups
    group["lr"] = rate
    optimiser.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_(group["params"], clip)
    optimiser.step()
    torch.autograd.graph.increment_version(group["params"])  # a fused step does not; `ObjectCNN` detects new weights by the version


def moments_of(optimiser: torch.optim.Adam) -> dict[str, NDArray[Any]]:
    """The state of Adam as named arrays: the moments and the step count of each parameter. The names of parameter number 0 are 0.step,
    0.exp_avg and 0.exp_avg_sq."""
    return {
        f"{index}.{name}": value.cpu().numpy()
        for index, slots in optimiser.state_dict()["state"].items()
        for name, value in slots.items()
    }  # fmt: skip


def check_moments(optimiser: torch.optim.Adam, moments: Mapping[str, NDArray[Any]]) -> None:
    """Raises ValueError if `moments`, a result of `moments_of`, does not fit the parameters of the optimiser. Adam itself does not check
    the shapes.

    `moments` may be empty: it then belongs to an optimiser that has not made a step yet.
    """
    wanted = {
        f"{index}.{name}": (() if name == "step" else tuple(parameter.shape), np.dtype(np.float32))
        for index, parameter in enumerate(each for group in optimiser.param_groups for each in group["params"])
        for name in ("step", "exp_avg", "exp_avg_sq")
    }
    if moments and {name: (array.shape, array.dtype) for name, array in moments.items()} != wanted:
        raise ValueError("the state of its optimiser is not of this network")


def load_moments(optimiser: torch.optim.Adam, moments: Mapping[str, NDArray[Any]]) -> None:
    """Loads `moments`, a result of `moments_of`, into the optimiser. Raises ValueError if it does not fit the optimiser's parameters."""
    check_moments(optimiser, moments)
    parameters = [each for group in optimiser.param_groups for each in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, array in moments.items():
        index, slot = name.split(".")
        value = torch.from_numpy(np.array(array))
        # A moment must have the memory layout of its parameter (channels last for convolutions), because a fused step requires it.
        state.setdefault(int(index), {})[slot] = value if slot == "step" else torch.empty_like(parameters[int(index)]).copy_(value)
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


def part(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Returns the arrays whose names begin with `prefix`, by name. The prefix is removed from their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def prefixed(groups: Mapping[str, Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Returns the arrays of all groups in one dictionary. `groups` maps a prefix to the arrays of a group. In the result, each name begins
    with the prefix of its group. `part` is the inverse."""
    return {prefix + name: array for prefix, arrays in groups.items() for name, array in arrays.items()}


def read(figures: Mapping[str, Tensor]) -> dict[str, float]:
    """Converts tensors, each of a single number, to Python numbers, with a single copy from the device. This is the only place where a
    learner step waits for the device."""
    return dict(zip(figures, torch.stack([each.detach() for each in figures.values()]).tolist(), strict=True))


class LearnerFacts(TypedDict):
    """The values of a checkpoint that are not arrays."""

    steps: Annotated[int, Meta(ge=0)]


class TargetLearner(Generic[N]):
    """Base class of learners: the online network, the target network, the optimiser, all on one device, and the replay."""

    replay: Replay
    """The replay of steps to learn from. A subclass creates it."""

    def __init__(self, config: Any, make: Callable[[], N], seed: int, device: str) -> None:
        """`make` makes a network whose initial weights are drawn from torch's global random generator."""
        self.config, self.device, self.steps = config, pick_device(device), 0
        torch.manual_seed(seed)  # initial weights come from the CPU's generator, so they are the same on every device
        self.net, self.target = make(), make()
        self.target.load_state_dict(self.net.state_dict())
        self.target.requires_grad_(False)
        for net in (self.net, self.target):
            net.to(self.device)
        fused = self.device.type in ("cpu", "cuda")
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=config.learning_rate, fused=fused)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The content of a checkpoint. The arrays are the weights of both networks, the state of the optimiser and the replay; the other
        value is the number of steps."""
        networks = {"net.": parameters_of(self.net), "target.": parameters_of(self.target), "optimiser.": moments_of(self.optimiser)}
        return prefixed({**networks, "replay.": self.replay.state()}), {"steps": self.steps}

    def load(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Resumes from a checkpoint. `arrays` and `facts` are the two dictionaries that `state` returned. Raises ValueError if they do not
        fit this learner."""
        checked: LearnerFacts = typed(facts, LearnerFacts)
        moments = part(arrays, "optimiser.")
        check_moments(self.optimiser, moments)
        load_parameters(self.net, part(arrays, "net."))
        load_parameters(self.target, part(arrays, "target."))
        load_moments(self.optimiser, moments)
        self.replay.load(part(arrays, "replay."))
        self.steps = checked["steps"]

    def update(self, loss: Tensor, figures: Mapping[str, float]) -> None:
        """Makes one optimiser step at the current learning rate, then updates the target network.

        Raises ValueError if a number in `figures` is not finite. `figures` has the metrics of this step, with the key `loss`.
        """
        if not isfinite(sum(figures.values())):
            raise ValueError(
                f"the loss is {figures['loss']} at learner step {self.steps}: the network has diverged, try a lower learning rate"
            )
        config = self.config
        rate = scheduled_rate(config.learning_rate, self.steps, config.warmup, config.decay_steps)
        optimizer_step(self.optimiser, loss, rate, config.max_grad_norm)
        self.steps += 1
        self.update_target()

    def update_target(self) -> None:
        """Moves the target network towards the online network (Polyak averaging). The share of the online network in the new target network
        is `tau` or 1 / (steps + 1), whichever is higher.

        So early in training the target network is the mean of the online network over all steps so far. With `tau` alone it would lag
        behind.
        """
        share = max(self.config.tau, 1 / (self.steps + 1))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.target.parameters()), list(self.net.parameters()), share)
