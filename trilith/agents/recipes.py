"""Algorithms and their recipes, by name. Imports no learning framework."""

from __future__ import annotations

import sys
from importlib import import_module

from trilith.agents.base import Algorithm, Recipe
from trilith.agents.dqn.config import ALGORITHM as DQN
from trilith.agents.rs0.config import ALGORITHM as RS0

ALGORITHMS: dict[str, Algorithm] = {algorithm.name: algorithm for algorithm in (DQN, RS0)}
"""Those that come with the package."""


def get_algorithm(name: str) -> Algorithm:
    """The algorithm of a name, or of a module of one's own that has an ALGORITHM. Raises ValueError naming those there are."""
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    found = _of_module(name)
    if found is None:
        raise ValueError(f"there is no algorithm {name!r}: choose {', '.join(ALGORITHMS)}, or name a module that has an ALGORITHM")
    return found


def get_recipe(name: str) -> tuple[str, Recipe]:
    """The algorithm, by the name that `get_algorithm` takes, and the recipe of a name; one of one's own is my_module:name."""
    module, _, own = name.rpartition(":")
    algorithms = {module: get_algorithm(module)} if module else ALGORITHMS
    for spec, algorithm in algorithms.items():
        for recipe in algorithm.recipes:
            if recipe.name == own:
                return spec, recipe
    names = [recipe.name for algorithm in algorithms.values() for recipe in algorithm.recipes]
    raise ValueError(f"there is no recipe {name!r}: choose {', '.join(names)}")


def _of_module(name: str) -> Algorithm | None:
    """None if there is no such module, or it has none. Raises ValueError in one line if there is one that cannot be imported."""
    if not all(part.isidentifier() for part in name.split(".")):
        return None
    if "" not in sys.path:
        sys.path.insert(0, "")  # modules of the folder that the command is given in
    try:
        found = getattr(import_module(name), "ALGORITHM", None)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            return None  # it is this module that is not there, not one that it needs
        raise ValueError(f"the module {name!r} cannot be imported: {type(error).__name__}: {' '.join(str(error).split())}") from None
    return found if isinstance(found, Algorithm) else None
