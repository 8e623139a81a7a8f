"""Configs: frozen dataclasses that are also the command line, checked where they are made, and stored as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")


def check_least(config: Any, **least: int) -> None:
    """Raises ValueError naming the first field of a config that is less than it may be; None is as good as any."""
    for name, lowest in least.items():
        value = getattr(config, name)
        if value is not None and not lowest <= value < float("inf"):
            raise ValueError(f"{name} {value}: must be {lowest} or more")


def to_json(config: Any) -> dict[str, Any]:
    """A config as plain values."""
    return {key: str(value) if isinstance(value, Path) else value for key, value in asdict(config).items()}


def from_json(kind: type[T], data: Mapping[str, Any]) -> T:
    """The config that `to_json` wrote. Raises ValueError in one line for what it cannot have written."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{data!r} is not a {kind.__name__}")
    hints = get_type_hints(kind)
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name not in names:
            raise ValueError(f"a {kind.__name__} has no field {name!r}")
        hint = hints[name]
        if isinstance(hint, type) and is_dataclass(hint):
            value = from_json(hint, value)
        values[name] = Path(value) if hint is Path else tuple(value) if isinstance(value, list) else value
    try:
        return kind(**values)
    except TypeError as error:  # a number where there should be a text, or the like
        raise ValueError(f"not a {kind.__name__}: {error}") from None
