"""Functions for configs. A config is a frozen dataclass; its fields become options of the command line. Configs are validated on creation
and stored as JSON."""

from __future__ import annotations

from dataclasses import asdict
from numbers import Real
from pathlib import Path
from typing import Any

from trilith.utils.checks import require, shortened
from trilith.utils.files import prefix_errors, typed


def check_least(config: Any, **least: int) -> None:
    """Raises ValueError if a field of `config` is below its lower bound, infinite, NaN or no number. `least` gives the lower bounds, by the
    names of the fields to check. The value None is allowed."""
    for name, lowest in least.items():
        value = getattr(config, name)
        number = isinstance(value, Real)
        fits = value is None or (number and lowest <= value < float("inf"))
        require(fits, f"{name} {shortened(value)}: must be {lowest} or more")


def check_most(config: Any, **most: int) -> None:
    """Raises ValueError if a field of `config` is above its upper bound. `most` gives the upper bounds, by the names of the fields to
    check. These fields must hold numbers, not None."""
    for name, highest in most.items():
        require(getattr(config, name) <= highest, f"{name} {getattr(config, name)}: must be {highest} or less")


def to_json(config: Any) -> dict[str, Any]:
    """Returns a config as a dictionary of plain JSON values. A field that is a Path becomes a text; fields of nested configs must not be
    Paths."""
    return {key: str(value) if isinstance(value, Path) else value for key, value in asdict(config).items()}


def from_json(kind: Any, data: Any) -> Any:
    """Restores a config of the dataclass `kind` from the result of `to_json`. Missing fields get their defaults. Raises ValueError if
    `data` has wrong types, wrong values or unknown fields."""
    name = getattr(kind, "__origin__", kind).__name__
    with prefix_errors(f"not a {name}: "):
        config = typed(data, kind)
    _no_others(name, data, to_json(config))
    return config


def _no_others(name: str, data: dict[str, Any], known: dict[str, Any]) -> None:
    """Raises ValueError if `data` has a field that `known` lacks, also in nested dictionaries.

    Args:
        name: the name of the config or of the nested field, for the message.
        data: a config as it was stored.
        known: the same config as `to_json` returns it, so with all the fields that this version has.
    """
    for field, value in data.items():
        require(field in known, f"{name} has no field {shortened(field)}")
        if isinstance(value, dict):
            _no_others(field, value, known[field])
