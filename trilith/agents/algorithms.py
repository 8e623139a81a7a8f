"""Finds algorithms and recipes by name. The recipes of an algorithm are defined in its folder. This module imports no learning
framework."""

from __future__ import annotations

from trilith.agents.base import Algorithm, Recipe
from trilith.agents.dqn.recipes import ALGORITHM as DQN
from trilith.agents.rs0.recipes import ALGORITHM as RS0
from trilith.utils.checks import require, shortened
from trilith.utils.modules import import_own

ALGORITHMS: dict[str, Algorithm] = {algorithm.name: algorithm for algorithm in (DQN, RS0)}
"""The algorithms of this package, by name."""


def get_algorithm(name: str) -> Algorithm:
    """Returns the algorithm that `name` selects. `name` is a key of `ALGORITHMS`, or a user's module with an attribute ALGORITHM.

    Raises ValueError, with the known names, if there is no such algorithm; also if the user's module cannot be imported.
    """
    found = ALGORITHMS.get(name) or _of_module(name)
    if found is None:
        own = "a module with an ALGORITHM that can be imported from here"
        raise ValueError(f"there is no algorithm {shortened(name)}: choose {', '.join(ALGORITHMS)}, or {own}")
    return found


def get_recipe(name: str) -> tuple[str, Recipe]:
    """Returns the pair (name of the algorithm, recipe). A `name` such as `objects` selects the newest version of a recipe, `objects-v2`
    selects version 2.

    A recipe in a user's module is written my_module:name; the name of its algorithm is then my_module. Raises ValueError, with the known
    recipes, if there is no such recipe.
    """
    module, _, own = name.rpartition(":")
    algorithms = {module: get_algorithm(module)} if module else ALGORITHMS
    found = [(spec, recipe) for spec, algorithm in algorithms.items() for recipe in algorithm.recipes if own in (recipe.name, recipe.exact)]
    names = dict.fromkeys(recipe.name for algorithm in algorithms.values() for recipe in algorithm.recipes)
    require(found, f"there is no recipe {shortened(name)}: choose {', '.join(names)}")
    return max(found, key=lambda each: each[1].version)


def exact_name(name: str) -> str:
    """The name of a recipe with its version: `objects` becomes `objects-v3` if 3 is the newest version. A prefix my_module: is kept."""
    module, colon, _ = name.rpartition(":")
    return f"{module}{colon}{get_recipe(name)[1].exact}"


def check_recipe_version(exact: str | None) -> None:
    """Checks `exact`, the recipe in a card, such as `objects-v2`. Raises ValueError if it has no version, or a higher version than this
    trilith knows.

    None is accepted, because a card need not name a recipe. A recipe that this trilith does not know is accepted in any version.
    """
    name, _, version = (exact or "").rpartition("-v")
    newest = max((each.version for known in ALGORITHMS.values() for each in known.recipes if each.name == name), default=None)
    require(not exact or version.isdecimal(), f"recipe {shortened(exact)}: must name its version, as objects-v2")
    require(not exact or not newest or int(version) <= newest, f"recipe {shortened(exact)}: this version of trilith knows {name}-v{newest}")


def _of_module(name: str) -> Algorithm | None:
    """Returns the algorithm of the module `name`; None if there is no such module, or if the module has no algorithm.

    Raises ValueError if the module exists but cannot be imported.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        return None
    try:
        found = getattr(import_own(name), "ALGORITHM", None)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            return None  # this module itself is missing, not one that it imports
        raise ValueError(f"the module {name!r} cannot be imported: {type(error).__name__}: {' '.join(str(error).split())}") from None
    return found if isinstance(found, Algorithm) else None
