"""The checkpoint of a training run: one file that holds its whole state. It is written whole or not at all (`utils.files.atomic_write`).
Loading a damaged file raises an error with a one-line message.

The file is in safetensors format: arrays by name, and one JSON text for all other values (`Facts`). So it cannot contain executable code.
The previous checkpoint is kept in the same folder. `training/run.py` decides when to write a checkpoint and how to resume.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
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
"""Name of the file that holds the checkpoint before the last one."""
CHECKPOINT_FORMAT = 2
"""Version of the format of `Facts`."""

Seconds = Annotated[float, Meta(ge=0)]


@dataclass(kw_only=True)
class Facts:
    """All state of a run except arrays. It is part of every checkpoint."""

    format: int = CHECKPOINT_FORMAT
    learner: dict[str, Any] = field(default_factory=dict)
    """The state of the learner, except arrays. It is set when a checkpoint is written."""
    requests: Count = 0
    """Number of requests for new episodes so far. The number of a request is a part of its seed."""
    corrections: Count = 0
    """Number of corrections requested so far, without requests that have no answer yet. Such requests are lost if the process dies."""
    actor_steps: Count = 0
    simulated: Simulated = field(default_factory=Simulated)
    """Number of simulator steps that the agent learned from."""
    seconds: Seconds = 0.0
    """Training time in seconds, including the time before a resume."""
    core_seconds: Seconds = 0.0
    """Processor time of all processes of the run."""
    validated: Annotated[int, Meta(ge=-1)] = 0
    """Learner step at which the last requested validation was due. If validations have no answer when a checkpoint is written, the
    checkpoint has a lower step, so that a resumed run requests them again."""
    best: float | None = None
    """Highest result of a validation so far: the mean reward on scenes of the level "hardest" plus the mean reward on scenes of the level
    "all". None before the first validation."""
    last_valid: dict[str, float] = field(default_factory=dict)
    """Metrics of the last validation. Empty before the first one."""
    recent: list[float] = field(default_factory=list)
    """Sum of rewards of each of the last played episodes, at most 200, oldest first."""
    figures: dict[str, float] = field(default_factory=dict)
    """Running means of the learner's metrics."""
    curriculum: dict[str, Any] = field(default_factory=dict)
    """State of the curriculum. It is set when a checkpoint is written."""
    rng: dict[str, Any]
    """State of the run's random generator."""


def mark(folder: Path) -> tuple[int, int, int] | None:
    """A value that identifies the checkpoint in a folder: its inode, size and modification time. None if there is no checkpoint."""
    try:
        status = (folder / NAME).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def save(path: Path, arrays: dict[str, NDArray[Any]], facts: Facts) -> None:
    """Writes a checkpoint to `path`, and keeps the previous checkpoint in the same folder. Even if the process is killed, `path` holds a
    complete file, the old one or the new one. Raises ValueError if `facts` has a value that JSON cannot hold; numbers of numpy are
    converted."""
    try:
        text = json.dumps(asdict(facts), default=_plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the state of the run cannot be saved in {path}: {error}") from None
    save_tensors(path, arrays, {"facts": text}, previous=path.with_name(PREVIOUS))


def _plain(value: object) -> Any:
    """Converts a number of numpy to a number of Python. Raises TypeError for any other value."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{shortened(value)} is not a JSON value")


def load(path: Path) -> tuple[dict[str, NDArray[Any]], Facts]:
    """Reads a checkpoint. Raises ValueError with a one-line message if the file is missing or damaged. If the previous checkpoint is
    intact, the message says how to resume from it."""
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
            f"{error}; the previous checkpoint is intact: to resume from it, run `{command}` and then the same command"
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
