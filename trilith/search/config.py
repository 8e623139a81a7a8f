"""The search algorithms by name, and their options. Imports no learning framework.

A new algorithm is a file in this package and a line here, or a class of your own as my_module:MyAlgorithm.

The options of all algorithms are in one flat config. Each algorithm reads the options that are also its fields. A nested config per
algorithm would turn `--search.c 2` into a subcommand with its own options, and results and cards could not be compared field by
field.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Literal

from tyro.conf import arg

from trilith.search.halving import Halving
from trilith.search.lookahead import Lookahead
from trilith.search.mcts import MCTS
from trilith.search.rollout import Rollout
from trilith.search.tree import SearchAlgorithm
from trilith.utils.checks import require
from trilith.utils.config import check_least
from trilith.utils.modules import imported, names_a_class

ALGORITHMS: dict[str, type[SearchAlgorithm]] = {"rollout": Rollout, "halving": Halving, "mcts": MCTS, "lookahead": Lookahead}

ONLINE = "online"
"""Value of `world` for actors that search in a model learned beside their agent. The learner holds this model, so it cannot be loaded
by name."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options of a search. The defaults are ours, see docs/explanation/search.md; the paper has algorithm mcts and c = 2."""

    algorithm: str = "rollout"
    """rollout: simulate episodes to their end and follow the best. mcts: Monte-Carlo tree search by an upper confidence bound (UCT).
    halving: sequential halving at the root, UCT below. lookahead: the first choice that does not end the episode by mistake (one or
    two simulations). Or a class of your own, as my_module:MyAlgorithm."""
    c: float = MCTS.c
    """Of mcts and halving: exploration constant, in units of reward."""
    stages: Literal[1, 2] = MCTS.stages
    """Of mcts and halving: 2 selects first the edge, by its best action, then an action of the edge; 1 selects among all actions."""
    max_candidates: int = Halving.max_candidates
    """Of halving: actions that share the first simulations."""
    world: Annotated[str, arg(prefix_name=False)] = "simulator"
    """Transition model: the simulator, the folder of a model that `trilith train-model` made, or a class of your own as
    my_module:MyWorld; with `trilith train` also online: a model that is learned beside the agent."""


@dataclass(frozen=True)
class SearchConfig(SearchOptions):
    """Options of a search, and its budget."""

    budget: Annotated[int, arg(prefix_name=False)] = 0
    """Simulations per decision; 0: no search."""

    def __post_init__(self) -> None:
        known = f"choose {', '.join(ALGORITHMS)}, or name a class as my_module:MyAlgorithm"
        exists = self.algorithm in ALGORITHMS or names_a_class(self.algorithm)
        require(exists, f"there is no search algorithm {self.algorithm!r}: {known}")
        check_least(self, budget=0, max_candidates=1, c=0)


def make_algorithm(options: SearchOptions) -> SearchAlgorithm:
    """Makes the algorithm that `options` names, with the options that are its fields. Raises ValueError if there is no such algorithm."""
    name = options.algorithm
    kind = ALGORITHMS[name] if name in ALGORITHMS else imported(name, "search algorithm")
    if not (isinstance(kind, type) and issubclass(kind, SearchAlgorithm)):
        raise ValueError(f"{name} is not a search algorithm: derive it from trilith.search.tree.SearchAlgorithm")
    return kind(**{field.name: getattr(options, field.name) for field in fields(kind) if hasattr(options, field.name)})
