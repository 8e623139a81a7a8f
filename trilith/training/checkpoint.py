"""A run on disk: one file that holds everything. It is written whole, and a damaged file is refused in one line.

The file is in safetensors format: arrays by name, and one JSON text with all that is not an array. It can contain no executable
code. The checkpoint before the last is kept beside it. `training/run.py` decides when to write a checkpoint and how to resume.
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
"""The checkpoint before the last."""
CHECKPOINT_FORMAT = 2
"""Version of the format of the facts."""

Seconds = Annotated[float, Meta(ge=0)]


@dataclass(kw_only=True)
class Facts:
    """All of a run that is not an array. The run counts in it, and a checkpoint stores it."""

    format: int = CHECKPOINT_FORMAT
    learner: dict[str, Any] = field(default_factory=dict)
    """Facts of the learner, filled in for a checkpoint."""
    requests: Count = 0
    corrections: Count = 0
    """Number of episodes of corrections whose request was answered. Requests under way are lost with the process."""
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
    """Facts of the curriculum, filled in for a checkpoint."""
    rng: dict[str, Any]
    """State of the run's generator."""


def mark(folder: Path) -> tuple[int, int, int] | None:
    """Inode, size and time of the checkpoint in a folder, which together identify it; None if there is no checkpoint."""
    try:
        status = (folder / NAME).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def save(path: Path, arrays: dict[str, NDArray[Any]], facts: Facts) -> None:
    """Writes arrays and facts to a file, and keeps the old file too. If the process is killed, `path` holds the whole old or new file."""
    save_tensors(path, arrays, {"facts": json.dumps(asdict(facts))}, previous=path.with_name(PREVIOUS))


def load(path: Path) -> tuple[dict[str, NDArray[Any]], Facts]:
    """Reads the result of `save`. If the file is missing or damaged, raises ValueError in one line that says how to resume from the
    checkpoint before."""
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
