"""Reads and loads the parameters of networks as arrays by name, and checks their names and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import nn


def check_weights(shapes: Mapping[str, tuple[int, ...]], weights: Mapping[str, NDArray[Any]]) -> None:
    """Raises ValueError if `weights` does not fit a network with the parameters `shapes`: if names or shapes differ, or if an array is not
    float32. The message names the first parameter that is wrong."""
    for name in sorted(shapes.keys() | weights.keys()):
        if name not in shapes or name not in weights:
            raise ValueError(f"{name} is {'missing' if name in shapes else 'not of this network'}")
        given, wanted = weights[name], shapes[name]
        if given.shape != wanted or given.dtype != np.float32:
            raise ValueError(f"{name} has shape {given.shape} and type {given.dtype}, this network has {wanted} and float32")


def shapes_of(module: nn.Module) -> dict[str, tuple[int, ...]]:
    """Returns a dictionary from the name of each parameter of a network to its shape."""
    return {name: tuple(value.shape) for name, value in module.state_dict().items()}


def parameters_of(module: nn.Module) -> dict[str, NDArray[Any]]:
    """Returns a dictionary from the name of each parameter of a network to a copy of its values."""
    return {name: value.cpu().numpy().copy() for name, value in module.state_dict().items()}


def load_parameters(module: nn.Module, weights: Mapping[str, NDArray[Any]]) -> None:
    """Loads a network's parameters by name. Raises ValueError with a one-line message, and changes nothing, if names, shapes or types do
    not match."""
    import torch

    check_weights(shapes_of(module), weights)
    module.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
