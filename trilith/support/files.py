"""Files appear whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EACCES
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # not on Windows, where nobody watches over folders
    fcntl = None  # type: ignore[assignment]


@contextmanager
def told(path: str | Path) -> Iterator[None]:
    """Errors of the system while `path` is written become one line that names it."""
    try:
        yield
    except OSError as error:
        if error.strerror is None:  # it has a message of its own
            raise
        why = f"{error.filename} is not a folder" if isinstance(error, FileExistsError) else error.strerror
        raise OSError(f"cannot write {path}: {why}") from None


def make_folder(path: str | Path) -> None:
    """Makes a folder, and those above it, unless it is there. Raises OSError in one line if it cannot be written to."""
    with told(path):
        Path(path).mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))


def check_png(path: str | Path) -> None:
    """Raises ValueError if the name of a picture does not end in .png."""
    if Path(path).suffix.lower() != ".png":
        raise ValueError(f"picture {str(path)!r}: its name must end in .png")


@contextmanager
def folder_lock(folder: str | Path) -> Iterator[None]:
    """While this lasts no other process is let into a folder by it. Raises ValueError in one line if one is there already."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems know no locks
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"another process is at work in {folder}: wait for it, or stop it") from None
        yield
    finally:
        os.close(handle)  # which also frees the folder, as does the end of the process


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """A path beside `path` to write to, renamed to it when the block ends well and removed when it does not.

    Missing folders are made. The path to write to keeps the suffix, by which many writers choose their format.
    """
    path = Path(path)
    aside = path.parent / f".{path.stem}.{os.getpid()}{path.suffix}"
    with told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield aside
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)


def write_json(path: str | Path, data: Any) -> None:
    """Writes data as JSON, numbers in full, whole or not at all."""
    with atomic_write(path) as aside:
        aside.write_text(json.dumps(data, allow_nan=False) + "\n", encoding="utf-8")


def read_json(path: str | Path) -> Any:
    """What a JSON file holds. Raises ValueError in one line if it cannot be read."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except RecursionError:
        raise ValueError(f"{path} is not JSON that can be read: it is nested too deep") from None
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
