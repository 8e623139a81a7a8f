"""The search algorithms by name, and their options. This module imports no learning framework.

To add an algorithm, write a file in this package and a line here, or use a class of your own as my_module:MyAlgorithm.

The options of all algorithms are in one flat config. Each algorithm reads the options that have the names of its fields. A nested config
for each algorithm would have two disadvantages: the option `--search.c 2` would need a subcommand, and the configs of two results could not
be compared field by field.
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
from trilith.utils.checks import require, shortened
from trilith.utils.config import check_least
from trilith.utils.modules import imported, names_a_class

ALGORITHMS: dict[str, type[SearchAlgorithm]] = {"rollout": Rollout, "halving": Halving, "mcts": MCTS, "lookahead": Lookahead}

ONLINE = "online"
"""The value of `SearchOptions.world` that selects a transition model learned during the same training run. The learner sends this model to
the actors; it cannot be loaded from a folder."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options of a search. The defaults are ours (see docs/explanation/search.md); the paper uses the algorithm mcts with c = 2."""

    algorithm: str = "rollout"
    """rollout: simulate episodes to their end and follow the best one. mcts: Monte-Carlo tree search by an upper confidence bound (UCT).
    halving: sequential halving at the root, UCT below. lookahead: the agent's best action that does not end the episode by mistake (needs
    one or two simulations). Or a class of your own, as my_module:MyAlgorithm."""
    c: float = MCTS.c
    """mcts, halving: exploration constant, in units of reward."""
    stages: Literal[1, 2] = MCTS.stages
    """mcts, halving: number of stages of a selection. 2: select an edge by its best action, then an action of this edge. 1: select among
    all actions."""
    max_candidates: int = Halving.max_candidates
    """halving: number of actions among which the first simulations are divided."""
    world: Annotated[str, arg(prefix_name=False)] = "simulator"
    """Transition model: simulator, the folder of a model from `trilith train-model`, or a class of your own as my_module:MyWorld. With
    `trilith train` also online: a model that is learned during the same run."""


@dataclass(frozen=True)
class SearchConfig(SearchOptions):
    """Options of a search, and its budget."""

    budget: Annotated[int, arg(prefix_name=False)] = 0
    """Maximum number of simulations per decision; 0: no search."""

    def __post_init__(self) -> None:
        known = f"choose {', '.join(ALGORITHMS)}, or name a class as my_module:MyAlgorithm"
        exists = self.algorithm in ALGORITHMS or names_a_class(self.algorithm)
        require(exists, f"there is no search algorithm {shortened(self.algorithm)}: {known}")
        check_least(self, budget=0, max_candidates=1, c=0)


def make_algorithm(options: SearchOptions) -> SearchAlgorithm:
    """Makes the algorithm `options.algorithm`. Its fields are set to the options of the same name. Raises ValueError if there is no such
    algorithm."""
    name = options.algorithm
    kind = ALGORITHMS[name] if name in ALGORITHMS else imported(name, "search algorithm")
    if not (isinstance(kind, type) and issubclass(kind, SearchAlgorithm)):
        raise ValueError(f"{name} is not a search algorithm: derive it from trilith.search.tree.SearchAlgorithm")
    return kind(**{field.name: getattr(options, field.name) for field in fields(kind) if hasattr(options, field.name)})
