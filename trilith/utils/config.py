"""Configs: frozen dataclasses that are also the command line, checked where they are made, and stored as JSON."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from trilith.utils.checks import require
from trilith.utils.files import prefix_errors, typed


def check_least(config: Any, **least: int) -> None:
    """Raises ValueError naming the first field of a config that is less than it may be; None is as good as any."""
    for name, lowest in least.items():
        value = getattr(config, name)
        require(value is None or lowest <= value < float("inf"), f"{name} {value}: must be {lowest} or more")


def check_most(config: Any, **most: int) -> None:
    """Raises ValueError naming the first field of a config that is more than it may be."""
    for name, highest in most.items():
        require(getattr(config, name) <= highest, f"{name} {getattr(config, name)}: must be {highest} or less")


def to_json(config: Any) -> dict[str, Any]:
    """A config as plain values."""
    return {key: str(value) if isinstance(value, Path) else value for key, value in asdict(config).items()}


def from_json(kind: Any, data: Any) -> Any:
    """The config that `to_json` wrote, of a dataclass `kind`. Raises ValueError in one line for what it cannot have written."""
    name = getattr(kind, "__origin__", kind).__name__
    with prefix_errors(f"not a {name}: "):
        config = typed(data, kind)
    _no_others(name, data, to_json(config))
    return config


def _no_others(name: str, data: dict[str, Any], known: dict[str, Any]) -> None:
    """A field that there is not may be of a later version: to leave it out would be another config."""
    for field, value in data.items():
        require(field in known, f"a {name} has no field {field!r}")
        if isinstance(value, dict):
            _no_others(field, value, known[field])
