"""Weights on disk: a safetensors file, and beside it a JSON file, the card, which describes the weights.

A card names the algorithm, the task, the exact recipe and the physics. It also lists, in words, every observation column and every part of
an action. Loading compares the card with the code. If the physics differs, loading prints a warning. If the recipe is newer than the
code's, or if anything else differs, loading raises ValueError with a one-line message. The card holds two checksums. The checksum of the
weights shows that card and weights belong together. The other is a checksum of the card's own fields.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from numpy.typing import NDArray

from trilith.agents.algorithms import check_recipe_version, get_algorithm
from trilith.agents.base import WORLD, Policy
from trilith.agents.schema import action_parts, check_same, observation_columns
from trilith.utils.checks import require, shortened
from trilith.utils.config import from_json, to_json
from trilith.utils.files import atomic_write, check_sealed, prefix_errors, read_json, sealed, typed
from trilith.utils.tensors import checksum, load_tensors, read_header, save_tensors
from trilith.world.episode import physics_from_json
from trilith.world.physics import PHYSICS

FORMAT = 3
"""Version of the card format."""


class Cost(TypedDict):
    """Cost of a training."""

    minutes: float
    """Wall-clock time of the training, in minutes."""
    core_minutes: NotRequired[float]
    """Processor time of all processes of the training, in minutes."""
    simulated: NotRequired[dict[str, int]]
    """Number of simulator steps that the agent learned from, by purpose (see `training.actor.Simulated`)."""
    kept: float
    """Time from the start of training to the saving of these weights; in core-minutes if `core_minutes` is known, else in minutes."""
    processes: int


class Tested(TypedDict):
    """Results of an evaluation on test scenes."""

    level: str
    budget: int
    """Maximum number of simulations before each placement."""
    algorithm: NotRequired[str]
    """Search algorithm, if there was a search."""
    scenes: int
    reward: float
    """Mean return."""
    interval: float
    """Half the width of the 95 % interval of `reward` over scenes."""
    solved: float
    """Fraction of the episodes that completed the task."""
    forfeited: NotRequired[float]
    """Mean return if episodes that touch an obstacle are counted with the return 0. Missing for agents that searched."""
    ends: NotRequired[dict[str, int]]
    """Maps each reason for the end of an episode to the number of episodes."""


class Seed(TypedDict):
    """The training run with one seed, and the test results of its final weights."""

    seed: int
    command: str
    learner_steps: int
    cost: Cost
    curve: list[tuple[float, float]]
    test: list[Tested]


class Card(TypedDict):
    """The fields of a card. Cards of shipped weights also have costs and results."""

    format: int
    algorithm: str
    task: str
    observation: list[str]
    """Input columns of the network, in words, in order."""
    action: list[str]
    """Parts of an action, in words, in order."""
    physics: NotRequired[int]
    """Version of the physics; missing for the first version."""
    weights: str
    """Checksum of the weights."""
    agent: dict[str, Any]
    """The fields of the algorithm's config that define the policy."""
    learning: NotRequired[dict[str, Any]]
    """The other fields of the config, which describe the training."""
    recipe: NotRequired[str]
    seed: NotRequired[int]
    command: NotRequired[str]
    commit: NotRequired[str]
    cost: NotRequired[Cost]
    curve: NotRequired[list[tuple[float, float]]]
    """Points of the learning curve, as (time, mean reward on the hardest validation scenes). Time is in core-minutes, or in minutes if the
    cost has no `core_minutes`."""
    test: NotRequired[list[Tested]]
    seeds: NotRequired[list[Seed]]
    """All seeds that were trained with the recipe, if there are several. The weights come from the median seed."""
    sha256: str
    """Checksum of all other fields."""


def save_weights(path: Path, algorithm: str, config: Any, task: str, weights: Mapping[str, NDArray[Any]], about: dict[str, Any]) -> None:
    """Writes weights to `path`, and their card beside this file. The card has all fields that are needed to load the weights, and the
    fields of `about`.

    The parameters of a transition model in which actors search (prefix `WORLD`) are left out, because the agent acts without this model.
    """
    weights = {name: array for name, array in weights.items() if not name.startswith(WORLD)}
    learning, known = to_json(config), get_algorithm(algorithm)
    card = {
        "format": FORMAT,
        "algorithm": algorithm,
        "task": task,
        "observation": observation_columns(config),
        "action": action_parts(config, known.searchable),
        "physics": PHYSICS,
        "weights": checksum(weights, {}),
        "agent": {name: learning.pop(name) for name in known.needed},
        "learning": learning,
        **about,
    }
    write_pair(path, card, weights)


def write_pair(path: Path, card: Mapping[str, Any], weights: Mapping[str, NDArray[Any]]) -> None:
    """Writes weights to `path`, and beside this file their card with its checksum. Each file appears whole or not at all."""
    with atomic_write(path.with_suffix(".json")) as aside:  # both files are complete on the disk before either gets its final name
        aside.write_text(json.dumps(sealed(card), allow_nan=False) + "\n", encoding="utf-8")
        save_tensors(path, weights)


def is_pair(path: Path) -> bool:
    """Whether the weights at `path` and the card beside them belong together. False if one of the two is missing, or if a process was
    killed between writing the two."""
    try:
        return bool(read_card(path)["weights"] == read_header(path).checksum)
    except ValueError:
        return False


def weights_file(path: Path) -> Path:
    """Returns the file of weights that a path refers to. A path that is no folder is returned as it is. In the folder of a run, the file is
    best.safetensors if it exists, else last.safetensors. Raises ValueError if neither exists."""
    if not path.is_dir():
        return path
    found = [path / name for name in ("best.safetensors", "last.safetensors") if (path / name).exists()]
    if not found and (seeds := sorted(path.glob("seed*"))):
        raise ValueError(f"{path} holds the runs of several seeds: choose one, such as {seeds[0]}")
    require(found, f"{path} has no best.safetensors or last.safetensors: it is not a run, or has not been evaluated yet")
    return found[0]


def read_card(path: Path) -> Card:
    """Reads the card of the file of weights `path`. Raises ValueError if there is no card, or if the card is not valid."""
    where = path.with_suffix(".json")
    data = read_json(where)
    require(isinstance(data, dict) and {"agent", "task"} <= data.keys(), f"{where} does not describe an agent")
    require(data.get("format") == FORMAT, f"{where} is of format {shortened(data.get('format'))}, this version of trilith knows {FORMAT}")
    check_sealed(where, data)
    with prefix_errors(f"{where} does not describe an agent: "):
        card: Card = typed(data, Card)
        physics_from_json(card)
        check_recipe_version(card.get("recipe"))
    return card


def load_policy(path: Path, *, beyond: bool = True, device: str = "cpu") -> tuple[Policy, Card]:
    """Returns the policy of a file of weights, and the card. With `beyond`, the policy also accepts scenes of generalisation levels, which
    can be larger.

    Raises ValueError if weights or card are missing, damaged, or do not fit each other or the code. The shapes in the file's header are
    checked before memory for a network is allocated.
    """
    card, where = read_card(path), path.with_suffix(".json")
    algorithm = get_algorithm(card["algorithm"])
    with prefix_errors(f"{where} does not describe an agent: "):
        if absent := [name for name in algorithm.needed if name not in card["agent"]]:
            raise ValueError(f"{absent[0]!r} is missing")
        config = from_json(algorithm.config, {name: card["agent"][name] for name in algorithm.needed})
    try:
        with prefix_errors(f"cannot use the weights {path}: "):
            check_same("observation", card["observation"], observation_columns(config))
            check_same("action", card["action"], action_parts(config, algorithm.searchable))
            header = read_header(path)
            require(header.checksum == card["weights"], f"{where} is the card of other weights: the two are not a pair")
            algorithm.check_shapes(config, card["task"], header.shapes, beyond=beyond)
            policy = algorithm.make_policy(config, card["task"], beyond=beyond, device=device)
            policy.load(load_tensors(path)[0])
    except ModuleNotFoundError as error:  # torch is not installed, and the network has no form without it
        if error.name not in LEARNING:
            raise
        raise ValueError(missing(f"the agent {path}")) from None
    warn_of_physics(physics_from_json(card))
    return policy, card


LEARNING = ("torch", "tensorboard")
"""Packages of the extra `learn`. The agents that come with trilith act without them."""


def learning() -> bool:
    """Whether the packages for training are installed."""
    return all(find_spec(package) for package in LEARNING)


def missing(what: str) -> str:
    """Returns the error message for `what`, which needs the packages of the extra `learn`. The message names the missing packages."""
    absent = ", ".join(package for package in LEARNING if not find_spec(package))
    return f'{what} needs more packages ({absent} missing): pip install "trilith[learn]", or -e ".[learn]" in a clone'


@cache
def warn_of_physics(version: int) -> None:
    """Prints a warning if `version`, the version of the physics with which weights were trained, is not the current one. Warns only once
    per version in a process."""
    if version != PHYSICS:
        print(f"weights trained with version {version} of the physics (now {PHYSICS}): they act, but were not made for it", file=sys.stderr)
