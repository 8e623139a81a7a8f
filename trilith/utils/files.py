"""Writes files whole or not at all, adds checksums to JSON files and checks them (`sealed`, `check_sealed`), and reads JSON files into
values of known types. The checksums of weights are made by `save_tensors` in `tensors.py`."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import EACCES
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

import msgspec
from filelock import FileLock, Timeout

from trilith.utils.checks import cut, require, shortened

MAX_JSON = 2**24
"""Maximum size of a JSON file in bytes, unless the reader sets another limit."""
MAX_LINES = 2**30
"""Maximum size in bytes of a file that grows line by line: a log or a journal."""
CHECKSUM = "sha256"
"""Name of the field that holds a file's checksum."""
NO_SOURCE = "no source file"
"""The fingerprint of code without a source file, such as a notebook's. To `check_same` it equals nothing, not even itself."""


@contextmanager
def name_path_in_errors(path: str | Path) -> Iterator[None]:
    """Context manager for code that writes `path`: gives an OSError from the `with` block a one-line message, "cannot write …"."""
    try:
        yield
    except OSError as error:
        if error.strerror is None:  # the error has its own message
            raise
        why = f"{error.filename} is not a folder" if isinstance(error, FileExistsError) else error.strerror
        raise OSError(f"cannot write {path}: {why}") from None


@contextmanager
def prefix_errors(text: str) -> Iterator[None]:
    """Context manager: puts `text` before the message of a ValueError raised in the `with` block, and makes the message one line, which is
    cut if it is too long. `text` should name the file or the value that is wrong, and end in ": "."""
    try:
        yield
    except ValueError as error:
        raise ValueError(cut(f"{text}{' '.join(str(error).split())}")) from None


def make_folder(path: str | Path) -> None:
    """Makes a folder and its parents, unless they exist. Raises OSError if the folder cannot be written to."""
    with name_path_in_errors(path):
        Path(path).mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))


def check_png(path: str | Path) -> None:
    """Raises ValueError if the name of a picture does not end in .png."""
    require(Path(path).suffix.lower() == ".png", f"picture {str(path)!r}: its name must end in .png")


def check_same(path: Path, what: str, found: Mapping[str, Any], wanted: Mapping[str, Any], instead: str = "remove it") -> None:
    """Raises ValueError if a field of `wanted` has a different value in `found`, the content of the file `path`.

    Further fields of `found` do not matter, except in nested dictionaries. The error message advises to choose another --out. In this
    message, `what` names the content of the file, such as "a result", and `instead` names an alternative to another --out.
    """
    for name, value in wanted.items():
        there = found.get(name)
        if isinstance(there, dict) and isinstance(value, dict):
            check_same(path, f"{what} of {name}", there, dict.fromkeys(there) | value, instead)
        else:
            known = value != NO_SOURCE
            said = f"{name} {shortened(there)}, not {shortened(value)}" if known else f"{name}, which has no source file to compare"
            require(known and there == value, f"{path} holds {what} of {said}: choose another --out, or {instead}")


@contextmanager
def folder_lock(folder: str | Path) -> Iterator[None]:
    """Context manager: locks a folder during the `with` block. Raises ValueError if another process holds the lock. On a file system
    without locks it does nothing."""
    lock = FileLock(Path(folder) / ".lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise ValueError(f"another process is at work in {folder}: wait for it, or stop it") from None
    except (OSError, NotImplementedError):
        pass  # some file systems have no locks
    try:
        yield
    finally:
        lock.release()  # the lock is also released when the process ends or is killed


@contextmanager
def atomic_write(path: str | Path, *, durable: bool = True, previous: Path | None = None) -> Iterator[Path]:
    """Context manager: yields a temporary path beside `path`, at which the caller writes a file. The file is renamed to `path` if the
    `with` block succeeds, and removed if the block fails.

    Missing folders are made. The temporary path has the same suffix, because many writers choose the file format by the suffix. With
    `durable`, the file is synced to the disk, so that it survives a crash of the machine. If `previous` is given, the file that was at
    `path` before is kept at `previous`. A reader always finds a complete file at `path`, the old one or the new one.
    """
    path = Path(path)
    aside = _aside(path)
    with name_path_in_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield aside
            if durable:
                _sync(aside)
            if previous is not None and path.exists():
                _keep(path, previous)
            os.replace(aside, path)
            if durable:
                with suppress(OSError):  # some file systems cannot sync a folder
                    _sync(path.parent)
        finally:
            aside.unlink(missing_ok=True)


def clear_leftovers(folder: str | Path) -> None:
    """Removes temporary files that `atomic_write` left in a folder because the writing process was killed. Does nothing on Windows."""
    if os.name == "nt":  # Windows has no signal that asks whether a process is alive
        return
    for path in Path(folder).glob(".*.part*"):
        if (found := _ASIDE.fullmatch(path.name)) and not _lives(int(found[1])):
            path.unlink(missing_ok=True)


_ASIDE = re.compile(r"\..+\.(\d{1,18})\.part(\.\w+)?")


def _aside(path: Path) -> Path:
    return path.parent / f".{path.stem}.{os.getpid()}.part{path.suffix}"


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # a process of another user
        return True
    return True


def _keep(path: Path, previous: Path) -> None:
    """Makes the file `path` also available as `previous`, by a hard link or a copy. Replaces an older file `previous`."""
    aside = _aside(previous)
    try:
        aside.unlink(missing_ok=True)
        try:
            os.link(path, aside)
        except OSError:  # some file systems have no hard links
            shutil.copyfile(path, aside)
        os.replace(aside, previous)
    finally:
        aside.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Waits until the data written to a file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: str | Path, data: Any, *, durable: bool = True) -> None:
    """Writes data as JSON, with numbers in full precision. The file appears whole or not at all. Raises ValueError if a number is not
    finite."""
    with atomic_write(path, durable=durable) as aside:
        aside.write_text(json.dumps(data, allow_nan=False) + "\n", encoding="utf-8")


def json_checksum(data: dict[str, Any]) -> str:
    """A digest of JSON values: 32 hexadecimal digits. The order of the fields of an object does not matter."""
    text = json.dumps(data, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def sealed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `data` with the additional field `sha256`: the checksum of all other fields as JSON, in the order of `data`. It reveals
    damage; it is not a signature."""
    facts = {name: value for name, value in data.items() if name != CHECKSUM}
    return facts | {CHECKSUM: hashlib.sha256(json.dumps(facts).encode()).hexdigest()}


def check_sealed(path: Path, data: Mapping[str, Any]) -> None:
    """Raises ValueError if `data`, read from `path`, has no checksum or a wrong one."""
    require(CHECKSUM in data, f"{path} has no checksum: it was not written by this version of trilith")
    try:
        whole = sealed(data)[CHECKSUM] == data[CHECKSUM]
    except RecursionError:
        whole = False
    require(whole, f"{path} is damaged: its checksum does not match its content")


def check_regular(path: str | Path, most: int) -> None:
    """Raises ValueError unless `path` is a regular file of at most `most` bytes. Does not open the file.

    To be called before a file is read: opening a FIFO would block, and reading a device such as /dev/zero would fill the memory.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    require(S_ISREG(status.st_mode), f"cannot read {path}: {'Is a directory' if S_ISDIR(status.st_mode) else 'not a regular file'}")
    require(status.st_size <= most, f"cannot read {path}: it has {status.st_size} bytes, more than {most}")


def read_file(path: str | Path, most: int) -> bytes:
    """The content of a file. Raises ValueError if `path` is not a regular file of at most `most` bytes, or cannot be read."""
    check_regular(path, most)
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None


def read_json(path: str | Path, kind: Any = Any, most: int = MAX_JSON) -> Any:
    """Reads a JSON file as a value of the type `kind`. Raises ValueError, which names the file, if the file cannot be read, has more than
    `most` bytes, is not JSON or does not fit `kind`."""
    text = read_file(path, most)
    with prefix_errors(f"{path} is "):
        return parse_json(text, kind)


def parse_json(text: bytes | str, kind: Any = Any) -> Any:
    """Parses JSON as a value of the type `kind`: a dataclass, a TypedDict, a list of numbers, … Raises ValueError if the text is not JSON
    or does not fit `kind`."""
    try:
        data = msgspec.json.decode(text)
    except RecursionError:
        raise ValueError("not JSON that can be read: it is nested too deep") from None
    except ValueError as error:  # includes msgspec.DecodeError, and the error for text that is not UTF-8
        raise ValueError(f"not JSON: {error}") from None
    with prefix_errors("not valid: "):
        return typed(data, kind)


def typed(data: Any, kind: Any) -> Any:
    """Converts plain JSON values to a value of the type `kind`. Raises ValueError, which names the wrong field, if the values do not fit
    `kind`."""
    try:
        return msgspec.convert(data, kind, dec_hook=_path)
    except (msgspec.ValidationError, RecursionError) as error:
        said = " ".join(str(error).split()).replace("`", "")
        what, _, where = said.rpartition(" - at $")
        place = f"{where.lstrip('.')}: " if what and where else ""
        raise ValueError(f"{place}{what or said}") from None


def _path(kind: type, value: Any) -> Any:
    """Converts a text to a path, because JSON has no type for paths. `kind` is the type that is wanted. Raises ValueError if it is not
    Path, or if `value` is not a text."""
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise ValueError(f"Expected a {getattr(kind, '__name__', kind)}, got {shortened(value)}")
