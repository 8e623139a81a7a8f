"""Validation of values that come from outside: options, files and requests."""

from __future__ import annotations


def require(condition: object, message: str) -> None:
    """Raises ValueError with `message` if `condition` is false. The message names the value and what would be right."""
    if not condition:
        raise ValueError(message)


def shortened(value: object) -> str:
    """A value as it is shown in a message: one line of at most 100 letters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:99]}…"
