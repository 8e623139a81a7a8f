"""Adapters of the world to the interfaces of other libraries. Each module is imported when its name is first used."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name not in ("dm", "flat", "gymnasium", "registration"):
        raise AttributeError(f"module 'trilith.envs' has no attribute {name!r}")
    return import_module(f"trilith.envs.{name}")
