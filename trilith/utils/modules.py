"""Classes of a user's own, named by module and class: my_module:MyTask, my_module:MyAgent."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def names_a_class(name: str) -> bool:
    """Whether a name has the form my_module:MyClass."""
    return all(part.isidentifier() for part in name.replace(":", ".", 1).split(".")) if name.count(":") == 1 else False


def imported(name: str, what: str) -> Any:
    """Imports my_module:MyClass. `what` is used in the message. Raises ValueError in one line if it does not exist.

    Modules in the folder where the process was started are found like installed ones.
    """
    module, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"there is no {what} {name!r}: {error}") from None
