"""Validation of values that come from outside: options, files and requests."""

from __future__ import annotations


def require(condition: object, message: str) -> None:
    """Raises ValueError with `message` if `condition` is false. The message should name the wrong value and say which values are
    allowed."""
    if not condition:
        raise ValueError(message)


def shortened(value: object) -> str:
    """The text of a value for an error message: one line of at most 100 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:99]}…"
