"""Algorithms and their recipes, by name. Imports no learning framework."""

from __future__ import annotations

import sys
from importlib import import_module

from trilith.agents.base import Algorithm, Recipe
from trilith.agents.dqn.recipes import ALGORITHM as DQN
from trilith.agents.rs0.recipes import ALGORITHM as RS0

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
    """The algorithm, by the name that `get_algorithm` takes, and a recipe: the newest version of a name, or an exact one as `objects-v1`.

    A recipe of one's own is my_module:name. Raises ValueError naming those there are.
    """
    module, _, own = name.rpartition(":")
    algorithms = {module: get_algorithm(module)} if module else ALGORITHMS
    found = [(spec, recipe) for spec, algorithm in algorithms.items() for recipe in algorithm.recipes if own in (recipe.name, recipe.exact)]
    if not found:
        names = dict.fromkeys(recipe.name for algorithm in algorithms.values() for recipe in algorithm.recipes)
        raise ValueError(f"there is no recipe {name!r}: choose {', '.join(names)}")
    return max(found, key=lambda each: each[1].version)


def exact_name(name: str) -> str:
    """The name of a recipe with its version."""
    module, colon, _ = name.rpartition(":")
    return f"{module}{colon}{get_recipe(name)[1].exact}"


def check_recipe_version(exact: str | None) -> None:
    """Raises ValueError if the recipe that a card names is not exact, or newer than those of this version of trilith."""
    name, _, version = (exact or "").rpartition("-v")
    newest = max((each.version for known in ALGORITHMS.values() for each in known.recipes if each.name == name), default=None)
    if exact and not version.isdecimal():
        raise ValueError(f"recipe {exact!r}: must name its version, as objects-v1")
    if exact and newest and int(version) > newest:
        raise ValueError(f"recipe {exact!r}: this version of trilith knows {name}-v{newest}")


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
