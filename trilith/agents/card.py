"""Weights on disk: a safetensors file and, beside it as JSON, a card that says what they mean.

A card names the algorithm and the task, what the network is shown and how it acts, each with its version, the physics it
learned in, and whether it learned under forfeit. So nothing that changes in the package silently changes what old weights see.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trilith.agents.algorithms import get_algorithm
from trilith.agents.base import Policy
from trilith.support.config import from_json, to_json
from trilith.support.files import read_json, write_json
from trilith.world.episode import physics_from_json
from trilith.world.physics import PHYSICS

FORMAT = 1
"""Of cards."""
OBSERVATION = "objects-1"
"""What networks are shown of a state (`nets.batch`): a new feature or object type is a new version."""
ACTION = "placement-1"
"""What actions mean (`world.actions`)."""


def save_weights(path: Path, algorithm: str, config: Any, task: str, weights: Mapping[str, NDArray[Any]], about: dict[str, Any]) -> None:
    """Writes weights to `path` and a card beside them, with all that is needed to use them and what is told `about` them."""
    from trilith.support.tensors import save_tensors

    save_tensors(path, weights)
    everything = to_json(config)
    agent = {name: everything.pop(name) for name in get_algorithm(algorithm).needed}
    facts = {"format": FORMAT, "algorithm": algorithm, "task": task, "observation": OBSERVATION, "action": ACTION, "physics": PHYSICS}
    write_json(path.with_suffix(".json"), {**facts, "agent": agent, "learning": everything, **about})


def weights_file(path: Path) -> Path:
    """The weights that a path stands for: itself, or those of a run's folder, its best ones if there are any yet."""
    if not path.is_dir():
        return path
    found = [path / name for name in ("best.safetensors", "last.safetensors") if (path / name).exists()]
    if not found and (seeds := sorted(path.glob("seed*"))):
        raise ValueError(f"{path} holds the runs of several seeds: choose one, such as {seeds[0]}")
    if not found:
        raise ValueError(f"{path} has no best.safetensors or last.safetensors: it is not a run, or has not been evaluated yet")
    return found[0]


def read_card(path: Path) -> dict[str, Any]:
    """The card of a file of weights. Raises ValueError in one line if there is none, or it is of something else."""
    card = read_json(path.with_suffix(".json"))
    where = path.with_suffix(".json")
    if not isinstance(card, dict) or not isinstance(card.get("agent"), dict) or not isinstance(card.get("task"), str):
        raise ValueError(f"{where} does not describe an agent")
    if "format" not in card:
        raise ValueError(f"{where} is a card of an unreleased version: train it again")
    for name, known in (("format", FORMAT), ("observation", OBSERVATION), ("action", ACTION)):
        if card.get(name) != known:
            raise ValueError(f"{where} is of {name} {card.get(name)!r}, this version of trilith knows {known!r}")
    return card


def load_policy(path: Path, *, beyond: bool = True, device: str = "cpu") -> tuple[Policy, dict[str, Any]]:
    """The policy of a file of weights, and its card. Raises ValueError in one line if they are damaged or do not belong together."""
    from trilith.support.tensors import load_tensors

    card = read_card(path)
    warn_of_physics(physics_from_json(card))
    algorithm = get_algorithm(str(card.get("algorithm")))
    try:
        config: Any = from_json(algorithm.config, {name: card["agent"][name] for name in algorithm.needed})
    except KeyError as error:
        raise ValueError(f"{path.with_suffix('.json')} does not describe an agent: {error} is missing") from None
    try:
        policy = algorithm.make_policy(config, card["task"], beyond=beyond, device=device)
    except ModuleNotFoundError as error:  # of a network that has no form without torch
        if error.name not in LEARNING:
            raise
        raise ValueError(missing(f"the agent {path}")) from None
    try:
        policy.load(load_tensors(path)[0])
    except ValueError as error:
        raise ValueError(f"cannot use the weights {path}: {' '.join(str(error).split())}") from None
    return policy, card


LEARNING = ("torch", "tensorboard")
"""Packages of the extra `learn`. The agents that come with trilith act without them."""


def learning() -> bool:
    """Whether what training needs is installed."""
    return all(find_spec(package) for package in LEARNING)


def missing(what: str) -> str:
    """What to say where a package of the extra `learn` is missing."""
    absent = ", ".join(package for package in LEARNING if not find_spec(package))
    return f'{what} needs more packages ({absent} missing): pip install "trilith[learn]", or -e ".[learn]" in a clone'


@cache
def warn_of_physics(version: int) -> None:
    """Tells, once a process, that weights were trained in another world than this one."""
    if version != PHYSICS:
        print(f"weights trained with version {version} of the physics (now {PHYSICS}): they act, but were not made for it", file=sys.stderr)
