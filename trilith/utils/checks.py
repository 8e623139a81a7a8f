"""Validation of values that come from outside: options, files and requests."""

from __future__ import annotations

LONGEST = 600
"""Maximum number of characters in an error message, see `cut`."""


def require(condition: object, message: str) -> None:
    """Raises ValueError with `message` if `condition` is false. The message should name the wrong value and say which values are
    allowed."""
    if not condition:
        raise ValueError(message)


def check_boolean(name: str, value: object) -> None:
    """Raises ValueError, which names the option or field `name`, if its value is neither True nor False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} {shortened(value)}: must be true or false")


def shortened(value: object) -> str:
    """The text of a value for an error message: one line of at most 100 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:99]}…"


def cut(message: str) -> str:
    """An error message of at most `LONGEST` characters. If `message` is longer, for instance because it quotes a damaged file, its middle
    is cut out."""
    half = (LONGEST - 3) // 2
    return message if len(message) <= LONGEST else f"{message[:half]} … {message[-half:]}"
