"""The checkpoint of a run: one file that holds its whole state. It is written whole or not at all. Loading refuses a damaged file
with one line.

The file is in safetensors format: arrays by name, and one JSON text for all other values (`Facts`). It can contain no executable
code. The previous checkpoint is kept beside it. `training/run.py` decides when to write a checkpoint and how to resume.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta
from numpy.typing import NDArray

from trilith.evaluation.schema import Count
from trilith.training.actor import Simulated
from trilith.utils.checks import require, shortened
from trilith.utils.config import from_json
from trilith.utils.files import parse_json, prefix_errors
from trilith.utils.tensors import MAX_CHECKPOINT, load_tensors, save_tensors

NAME = "checkpoint.safetensors"
PREVIOUS = "previous.safetensors"
"""Name of the previous checkpoint."""
CHECKPOINT_FORMAT = 2
"""Version of the format of the facts."""

Seconds = Annotated[float, Meta(ge=0)]


@dataclass(kw_only=True)
class Facts:
    """The state of a run except its arrays. The run updates its counters during training, and a checkpoint stores it."""

    format: int = CHECKPOINT_FORMAT
    learner: dict[str, Any] = field(default_factory=dict)
    """State of the learner without arrays. It is set when a checkpoint is written."""
    requests: Count = 0
    corrections: Count = 0
    """Number of correction episodes in answered requests. Requests under way are lost if the process dies."""
    actor_steps: Count = 0
    simulated: Simulated = field(default_factory=Simulated)
    """Steps of the simulator that the agent learned from."""
    seconds: Seconds = 0.0
    """Training time, including the time before a resume."""
    core_seconds: Seconds = 0.0
    """Processor time of all processes of the run."""
    validated: Annotated[int, Meta(ge=-1)] = 0
    """Learner step at which the last requested validation was due."""
    best: float | None = None
    last_valid: dict[str, float] = field(default_factory=dict)
    recent: list[float] = field(default_factory=list)
    """Rewards of the last episodes."""
    figures: dict[str, float] = field(default_factory=dict)
    """Running means of the learner's metrics."""
    curriculum: dict[str, Any] = field(default_factory=dict)
    """State of the curriculum. It is set when a checkpoint is written."""
    rng: dict[str, Any]
    """State of the run's generator."""


def mark(folder: Path) -> tuple[int, int, int] | None:
    """Identifies the checkpoint in a folder by its inode, size and modification time; None if there is no checkpoint."""
    try:
        status = (folder / NAME).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def save(path: Path, arrays: dict[str, NDArray[Any]], facts: Facts) -> None:
    """Writes arrays and facts to a file, and keeps the old file beside it. Even if the process is killed, `path` holds a whole file,
    old or new."""
    save_tensors(path, arrays, {"facts": json.dumps(asdict(facts))}, previous=path.with_name(PREVIOUS))


def load(path: Path) -> tuple[dict[str, NDArray[Any]], Facts]:
    """Reads a file of `save`. If it is missing or damaged, raises ValueError in one line that says how to resume from the previous
    checkpoint."""
    try:
        return _load(path)
    except ValueError as error:
        previous = path.with_name(PREVIOUS)
        try:
            _load(previous)
        except ValueError:
            raise error from None
        command = shlex.join(["mv", str(previous), str(path)])
        raise ValueError(
            f"{error}; the checkpoint before it is whole: to resume from that, `{command}` and the same command again"
        ) from None


def _load(path: Path) -> tuple[dict[str, NDArray[Any]], Facts]:
    arrays, texts = load_tensors(path, MAX_CHECKPOINT)
    with prefix_errors(f"{path} is not the checkpoint of a run: "):
        data = parse_json(texts.get("facts", ""), dict[str, Any])
        version = data.get("format")
        require(version == CHECKPOINT_FORMAT, f"of format {shortened(version)}, this version of trilith knows {CHECKPOINT_FORMAT}")
        missing = sorted(Facts.__annotations__.keys() - data.keys())
        require(not missing, f"there is no {', '.join(missing)}")
        return arrays, from_json(Facts, data)
