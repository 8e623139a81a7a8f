"""Safetensors files: arrays by name and texts, nothing that could run code, and a checksum over all of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from trilith.support.files import atomic_write

_UMASK = os.umask(0)
os.umask(_UMASK)
CHECKSUM = "sha256"
"""Name of the text that holds it."""


def save_tensors(path: Path, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, str] | None = None) -> None:
    """Writes arrays, and texts by name, whole or not at all. Raises OSError in one line if that cannot be done."""
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    texts = dict(facts or {})
    with atomic_write(path) as aside:
        try:
            save_file(whole, aside, texts | {CHECKSUM: _checksum(whole, texts)})
        except SafetensorError as error:  # its own kind, also of a full disk
            raise OSError(f"cannot write {path}: {error}") from None
        aside.chmod(0o666 & ~_UMASK)  # as other files are: the library's own are for their owner alone


def load_tensors(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """What `save_tensors` wrote. Raises ValueError in one line if it is missing or damaged, a single bit included."""
    try:
        with safe_open(path, framework="numpy") as file:
            texts = dict(file.metadata() or {})
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    stated = texts.pop(CHECKSUM, None)
    if stated is None:
        raise ValueError(f"{path} has no checksum: it was not written by this version of trilith")
    if stated != _checksum(arrays, texts):
        raise ValueError(f"{path} is damaged: its checksum is not that of what it holds")
    return arrays, texts


def _checksum(arrays: Mapping[str, NDArray[Any]], texts: Mapping[str, str]) -> str:
    """Of names, types, shapes, bytes and texts, in an order of their own."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    for name in sorted(texts):
        digest.update(f"{name} {texts[name]}\n".encode())
    return digest.hexdigest()
