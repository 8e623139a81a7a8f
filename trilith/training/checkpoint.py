"""A run on disk: one file that holds everything. It is written whole, and a damaged file is refused in one line.

The file is in safetensors format: arrays by name, and one JSON text with all that is not an array. It can contain no executable
code. The checkpoint before the last is kept beside it. `training/run.py` decides when to write a checkpoint and how to resume.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta
from numpy.typing import NDArray

from trilith.utils.files import parse_json, prefix_errors, typed
from trilith.utils.tensors import load_tensors, save_tensors

NAME = "checkpoint.safetensors"
PREVIOUS = "previous.safetensors"
"""The checkpoint before the last."""
FORMAT = 2
"""Version of the format of the facts."""

Count = Annotated[int, Meta(ge=0)]


class _Words(TypedDict):
    """The state of a PCG64 generator."""

    state: Annotated[int, Meta(ge=0)]
    inc: Annotated[int, Meta(ge=0)]


class RandomState(TypedDict):
    """The state of numpy's default generator."""

    bit_generator: Literal["PCG64"]
    state: _Words
    has_uint32: Literal[0, 1]
    uinteger: Annotated[int, Meta(ge=0, lt=2**32)]


class Facts(TypedDict):
    """All of a run that is not an array."""

    format: int
    learner: dict[str, Any]
    """Facts of the learner."""
    requests: Count
    corrections: Count
    actor_steps: Count
    simulated: dict[str, Count]
    seconds: Annotated[float, Meta(ge=0)]
    core_seconds: Annotated[float, Meta(ge=0)]
    validated: Annotated[int, Meta(ge=-1)]
    best: float | None
    last_valid: dict[str, float]
    recent: list[float]
    figures: dict[str, float]
    curriculum: dict[str, Any]
    """Facts of the curriculum."""
    rng: RandomState


def mark(folder: Path) -> tuple[int, int, int] | None:
    """Inode, size and time of the checkpoint in a folder, which together identify it; None if there is no checkpoint."""
    try:
        status = (folder / NAME).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def save(path: Path, arrays: dict[str, NDArray[Any]], facts: Facts) -> None:
    """Writes arrays and facts to a file, and keeps the old file too. If the process is killed, `path` holds the whole old or new file."""
    save_tensors(path, arrays, {"facts": json.dumps(facts)}, previous=path.with_name(PREVIOUS))


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
    arrays, texts = load_tensors(path)
    with prefix_errors(f"{path} is not the checkpoint of a run: "):
        data = parse_json(texts.get("facts", ""))
        if (version := typed(data, dict[str, Any]).get("format")) != FORMAT:
            raise ValueError(f"of format {version!r}, this version of trilith knows {FORMAT}")
        return arrays, typed(data, Facts)
