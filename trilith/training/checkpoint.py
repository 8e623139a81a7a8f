"""A run on disk: one file that holds everything, written whole, and read back or refused in one line.

The file is in safetensors format: arrays by name, and one text, JSON with all that is not an array. Nothing in it can
run code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from trilith.agents.dqn.learner import DQNLearner
from trilith.support.tensors import save_tensors

NAME = "checkpoint.safetensors"


def save(path: Path, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
    """Writes arrays and facts to a file that is either the old or the new one, whenever the process is killed."""
    save_tensors(path, arrays, {"facts": json.dumps(facts)})


def load(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """What `save` wrote. Raises ValueError in one line if it is missing or damaged."""
    try:
        with safe_open(path, framework="numpy") as file:
            facts = json.loads((file.metadata() or {})["facts"])
            return {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise ValueError(f"the checkpoint {path} is damaged: {error}") from None


def learner_arrays(learner: DQNLearner) -> dict[str, NDArray[Any]]:
    """Weights of both networks and the state of the optimiser."""
    arrays = {f"net.{name}": value.numpy() for name, value in learner.net.state_dict().items()}
    arrays |= {f"target.{name}": value.numpy() for name, value in learner.target.state_dict().items()}
    for index, slots in learner.optimiser.state_dict()["state"].items():
        arrays |= {f"optimiser.{index}.{name}": value.numpy() for name, value in slots.items()}
    return arrays


def load_learner(learner: DQNLearner, arrays: dict[str, NDArray[Any]]) -> None:
    """Gives a learner what `learner_arrays` took. Raises ValueError if it is of another network."""

    def part(prefix: str) -> dict[str, torch.Tensor]:
        return {name[len(prefix) :]: torch.from_numpy(array.copy()) for name, array in arrays.items() if name.startswith(prefix)}

    try:
        learner.net.load_state_dict(part("net."))
        learner.target.load_state_dict(part("target."))
        state: dict[int, dict[str, torch.Tensor]] = {}
        for name, value in part("optimiser.").items():
            index, slot = name.split(".")
            state.setdefault(int(index), {})[slot] = value
        learner.optimiser.load_state_dict({**learner.optimiser.state_dict(), "state": state})
    except (RuntimeError, ValueError, KeyError) as error:
        raise ValueError(f"the checkpoint is of another network: {' '.join(str(error).split())}") from None
