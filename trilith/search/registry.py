"""Search algorithms by name. A new one is a file in this package and a line here, or a class of your own as my_module:MyAlgorithm."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from trilith.search.halving import Halving
from trilith.search.lookahead import Lookahead
from trilith.search.mcts import MCTS
from trilith.search.rollout import Rollout
from trilith.search.tree import SearchAlgorithm
from trilith.utils.modules import imported, names_a_class

if TYPE_CHECKING:
    from trilith.search.config import SearchOptions

ALGORITHMS: dict[str, type[SearchAlgorithm]] = {"rollout": Rollout, "halving": Halving, "mcts": MCTS, "lookahead": Lookahead}


def check_algorithm(name: str) -> None:
    """Raises ValueError that names the known algorithms if `name` is neither one of them nor the path of a class."""
    if name not in ALGORITHMS and not names_a_class(name):
        known = ", ".join(ALGORITHMS)
        raise ValueError(f"there is no search algorithm {name!r}: choose {known}, or name a class as my_module:MyAlgorithm")


def make_algorithm(options: SearchOptions) -> SearchAlgorithm:
    """The algorithm with the given name, with the options that it has a field for. Raises ValueError if there is no such algorithm."""
    name = options.algorithm
    kind = ALGORITHMS[name] if name in ALGORITHMS else imported(name, "search algorithm")
    if not (isinstance(kind, type) and issubclass(kind, SearchAlgorithm)):
        raise ValueError(f"{name} is not a search algorithm: derive it from trilith.search.tree.SearchAlgorithm")
    return kind(**{field.name: getattr(options, field.name) for field in fields(kind) if hasattr(options, field.name)})
