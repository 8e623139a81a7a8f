"""Writing safetensors files: arrays by name, and nothing that could run code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save_file

from trilith.support.files import atomic_write


def save_tensors(path: Path, arrays: Mapping[str, NDArray[Any]], facts: dict[str, str] | None = None) -> None:
    """Writes arrays, and texts by name, whole or not at all. Raises OSError in one line if that cannot be done."""
    with atomic_write(path) as aside:
        try:
            save_file({name: np.asarray(array, order="C") for name, array in arrays.items()}, aside, facts)
        except SafetensorError as error:  # its own kind, also of a full disk
            raise OSError(f"cannot write {path}: {error}") from None
