"""How to search. Imports no learning framework."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import arg

from trilith.utils.config import check_least

ONLINE = "online"
"""The world of actors that search in a model which is learned beside their agent: it belongs to its learner, and cannot be had by name."""

Root = Literal["rollout", "halving", "bound", "first"]
"""Ways to search."""


@dataclass(frozen=True)
class SearchConfig:
    """How to search. The defaults are ours, see docs/planning.md; the paper's are c = 2 and root = bound."""

    budget: Annotated[int, arg(prefix_name=False)] = 0
    """Simulations a decision; 0: no search."""
    c: float = 0.1
    """Weight of the bonus for what has been tried little."""
    stages: Literal[1, 2] = 2
    """2: first the edge is chosen by its best action, then the action among those of the edge; 1: any action at once."""
    root: Root = "rollout"
    """How to search. rollout: lines of actions are simulated to their end, the best one is followed. Tree search, with actions at the
    root chosen by sequential halving of the `considered` best (halving) or by the upper confidence bound (bound). first: the first action,
    in order of what is expected of them, that does not turn out to end the episode for far less, which takes one simulation or two."""
    considered: int = 8
    """Halving: actions that the first simulations are shared among."""

    world: Annotated[str, arg(prefix_name=False)] = "simulator"
    """What is searched: the simulator, the folder of a model that `trilith train-model` made, or a world of your own as
    my_module:MyWorld; in a training also online: a model that is learned beside the agent."""

    def __post_init__(self) -> None:
        check_least(self, budget=0, considered=1)
        if not 0 <= self.c < float("inf"):
            raise ValueError(f"c {self.c}: must be a number from 0 on")
