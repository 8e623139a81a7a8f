"""A run on disk: one file that holds everything, written whole, and read back or refused in one line.

The file is in safetensors format: arrays by name, and one text, JSON with all that is not an array. Nothing in it can
run code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trilith.support.tensors import load_tensors, save_tensors

NAME = "checkpoint.safetensors"


def save(path: Path, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
    """Writes arrays and facts to a file that is either the old or the new one, whenever the process is killed."""
    save_tensors(path, arrays, {"facts": json.dumps(facts)})


def load(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """What `save` wrote. Raises ValueError in one line if it is missing or damaged."""
    arrays, texts = load_tensors(path)
    try:
        facts = json.loads(texts["facts"])
    except (KeyError, ValueError):
        raise ValueError(f"{path} is not the checkpoint of a run") from None
    if not isinstance(facts, dict):
        raise ValueError(f"{path} is not the checkpoint of a run")
    return arrays, facts
