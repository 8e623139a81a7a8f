"""Validation of values that come from outside: options, files and requests."""

from __future__ import annotations


def require(condition: object, message: str) -> None:
    """Raises ValueError with a message, which names the value and what would be right, unless a condition holds."""
    if not condition:
        raise ValueError(message)
