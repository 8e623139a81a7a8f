"""A learned model on disk: a safetensors file with the weights, and a JSON card that describes them. Imports no learning framework."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from numpy.typing import NDArray

from trilith.agents.weights import write_pair
from trilith.networks.config import DynamicsConfig
from trilith.networks.inputs.rigid_body_features import FALL_COLUMNS
from trilith.utils.checks import require, shortened
from trilith.utils.config import from_json, to_json
from trilith.utils.files import check_sealed, prefix_errors, read_json, typed
from trilith.utils.tensors import checksum, load_tensors, read_header
from trilith.world.physics import PHYSICS

MODEL = "model.safetensors"
MODEL_FORMAT = 1
"""Version of the card format."""
PREDICTS = "settled-1"
"""Version of the inputs and outputs of a model (`networks.dynamics.base`)."""


class ModelCard(TypedDict):
    """The fields of the card of a model, the file model.json."""

    format: int
    predicts: str
    physics: int
    weights: str
    """Checksum of the weights. Reading compares it with the checksum in the file of weights."""
    tasks: list[str]
    """Tasks of the episodes that the model learned from."""
    hand_made: NotRequired[list[str]]
    """Input columns that are computed by hand-written rules. They describe the straight fall of the new block."""
    net: dict[str, Any]
    learning: NotRequired[dict[str, Any]]
    minutes: NotRequired[float]
    steps: NotRequired[int]
    data: NotRequired[list[str]]
    sha256: str
    """Checksum of all other fields."""


def save_model(folder: Path, net: DynamicsConfig, tasks: list[str], weights: Mapping[str, NDArray[Any]], about: dict[str, Any]) -> None:
    """Writes the weights of a model and its card into a folder. `about` has further fields of the card. Each file is written whole or not
    at all."""
    facts: dict[str, Any] = {"format": MODEL_FORMAT, "predicts": PREDICTS, "physics": PHYSICS, "weights": checksum(weights, {})}
    facts |= {"tasks": tasks, "hand_made": list(FALL_COLUMNS)}
    write_pair(folder / MODEL, {**facts, "net": to_json(net), **about}, weights)


def read_model(folder: Path) -> tuple[DynamicsConfig, dict[str, NDArray[Any]], ModelCard]:
    """Reads a model from a folder: the config of its network, its weights and its card. Raises ValueError if a file is missing, damaged or
    of another version, or if the two do not belong together."""
    where = folder / "model.json"
    data = read_json(where)
    for name, known in (("format", MODEL_FORMAT), ("predicts", PREDICTS), ("physics", PHYSICS)):
        found = data.get(name) if isinstance(data, dict) else None
        require(found == known, f"{where} is of {name} {shortened(found)}, this version of trilith knows {known!r}")
    check_sealed(where, data)
    with prefix_errors(f"{where} does not describe a model: "):
        card: ModelCard = typed(data, ModelCard)
        net: DynamicsConfig = from_json(DynamicsConfig, card["net"])
    require(read_header(folder / MODEL).checksum == card["weights"], f"{where} is the card of other weights: the two are not a pair")
    return net, load_tensors(folder / MODEL)[0], card
