"""Reads and writes safetensors files. Such a file holds named arrays, named texts, and a checksum of both. It cannot contain executable
code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from trilith.utils.checks import require
from trilith.utils.files import CHECKSUM, atomic_write, check_regular

MAX_WEIGHTS = 2**30
"""Maximum size in bytes of a file of weights or of recorded episodes."""
MAX_CHECKPOINT = 2**36
"""Maximum size of a checkpoint in bytes. The limit is large because a checkpoint holds the replay buffer."""


class Header(NamedTuple):
    """The header of a safetensors file. It can be read without reading the arrays."""

    shapes: dict[str, tuple[int, ...]]
    """Maps the name of each array to its shape."""
    checksum: str


def save_tensors(
    path: Path, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, str] | None = None, previous: Path | None = None
) -> str:
    """Writes `arrays` and the texts `facts`, both by name, as the file `path`. The file is written whole or not at all. If `previous` is
    given, the file that was at `path` before is kept at `previous`. No text may have the name `CHECKSUM`.

    Returns the checksum of arrays and texts. Raises OSError if the file cannot be written.
    """
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    texts = dict(facts or {})
    stated = checksum(whole, texts)
    with atomic_write(path, previous=previous) as aside:
        # We do not use the library's own `save_file`, because if it is killed it leaves a file under an unknown name.
        aside.write_bytes(_in_order(save(whole, texts | {CHECKSUM: stated})))
    return stated


def _in_order(file: bytes) -> bytes:
    """Sorts the texts in a safetensors file by name. `file` is the content of the file, and so is the result. The library writes texts in
    varying order, but equal content must give equal bytes."""
    length = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # arrays begin at multiples of 8
    return len(text).to_bytes(8, "little") + text + file[8 + length :]


def read_header(path: Path) -> Header:
    """Reads the header of a file written by `save_tensors`, without verifying the checksum. Raises ValueError if the file is missing, too
    large, cannot be read or has no checksum."""
    with _opened(path, MAX_WEIGHTS) as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        return Header(shapes, _stated(path, dict(file.metadata() or {})))


def load_tensors(path: Path, most: int = MAX_WEIGHTS) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Reads a file written by `save_tensors`. Returns its arrays and its texts, both by name. Raises ValueError if the file is missing, has
    more than `most` bytes, or is damaged, even in a single bit."""
    with _opened(path, most) as file:
        texts = dict(file.metadata() or {})
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    stated = _stated(path, texts)
    del texts[CHECKSUM]
    require(stated == checksum(arrays, texts), f"{path} is damaged: its checksum does not match its content")
    return arrays, texts


@contextmanager
def _opened(path: Path, most: int) -> Iterator[Any]:
    check_regular(path, most)
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except (SafetensorError, OSError, TypeError, AttributeError) as error:  # TypeError and AttributeError: a dtype that numpy lacks
        raise ValueError(f"{path} cannot be read: {' '.join(str(error).split())}") from None


def _stated(path: Path, texts: dict[str, str]) -> str:
    require(CHECKSUM in texts, f"{path} has no checksum: it was not written by this version of trilith")
    return texts[CHECKSUM]


def checksum(arrays: Mapping[str, NDArray[Any]], texts: Mapping[str, str]) -> str:
    """SHA-256, in hexadecimal, of the arrays (names, types, shapes and bytes) and of the texts. Their order does not matter."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    for name in sorted(texts):
        digest.update(f"{name} {texts[name]}\n".encode())
    return digest.hexdigest()
