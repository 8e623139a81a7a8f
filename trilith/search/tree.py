"""The code that all search algorithms share: a tree of states with the values of their actions, and the interface of an algorithm.

A node stores its state, so no action is simulated twice. A `TransitionModel` predicts the outcome of an action. `ActionValues` lists the
actions of a state and estimates their values. Nothing here depends on networks, blocks or physics. Several trees grow in parallel: each
round simulates one action of every tree in one batch, and evaluates all new states in one batch. Each tree has its own random generator and
does not depend on the other trees.

In shapes, A is the number of actions of a state. Within a tree an action is an index from 0 to A - 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

if TYPE_CHECKING:  # this imports numba, which is slow and not needed for help texts
    from trilith.world.scene import Floats, Ints

S = TypeVar("S")
"""Type variable: a state."""
A = TypeVar("A")
"""Type variable: an action in the format of the transition model."""
N = TypeVar("N", bound="Node[Any]")
"""Type variable: the node type of an algorithm."""
S_in = TypeVar("S_in", contravariant=True)
A_in = TypeVar("A_in", contravariant=True)
A_out = TypeVar("A_out", covariant=True)
Path = list[tuple[N, int]]
"""A path in a tree: the nodes from the root down, each with the index of the action that was selected there."""


class Prior(NamedTuple):
    """The actions of a state, and their values before any simulation."""

    values: Floats
    """(A,): the estimated return of each action; all 0 in a search without a network."""
    edges: Ints
    """(A,): the number of the edge that each action belongs to, in ascending order. An edge is a group of actions: those that
    place the same available block and, if actions are relative, place it relative to the same object."""
    ids: Ints
    """(A,): an id for each action, unique within the state. `ActionValues.decode` converts it to the format of the transition model."""


class TransitionModel(Protocol[S, A_in]):
    """The transition model that a search uses: the simulator or a learned model. It is deterministic, and computes batches of
    transitions."""

    def steps(self, states: Sequence[S], actions: Sequence[A_in]) -> Sequence[tuple[S, float, float]]:
        """Takes one action in each state. Returns (next state, reward, probability that the episode ended) for each."""


class ActionValues(Protocol[S_in, A_out]):
    """Estimates the values of actions."""

    @property
    def discount(self) -> float:
        """Discount factor."""

    def priors(self, states: Sequence[S_in]) -> list[Prior]:
        """The actions of each state and their values. The states must not be terminal."""

    def decode(self, state: S_in, action_id: int) -> A_out:
        """Converts an id from `priors` to an action in the format of the transition model."""


class Node(Generic[S]):
    """A state in a tree. Its actions are stored as arrays, because there can be thousands, and most are never tried."""

    def __init__(self, state: S, prior: Prior) -> None:
        self.state = state
        self.continue_probability = 1.0
        """Probability that the last action before this node did not end the episode. It is below 1 only if a learned transition model is
        uncertain."""
        self.ids = prior.ids
        """(A,): the ids of the actions, see `Prior`."""
        self.values = np.array(prior.values, dtype=np.float64)
        """(A,): the value of each action: first its prior value, later the estimate of the search."""
        self.prior_value = float(self.values.max()) if len(self.values) else 0.0
        """Value of the state before any simulation: the value of its best action; 0 without actions."""
        self.rewards: dict[int, float] = {}
        """Maps each simulated action to its reward."""
        self.children: dict[int, Self | None] = {}
        """Maps each simulated action to the next node; None if the action ended the episode."""
        self.visits = 0
        """Number of simulations that took an action in this node."""

    @cached_property  # computed when needed, because most nodes are never visited again
    def counts(self) -> Floats:
        """(A,): 1 plus the number of simulations that took each action."""
        return np.ones(len(self.values))

    @property
    def principal_action(self) -> int:
        """The simulated action that was taken most often; among ties, the one with the highest value. There must be a simulated action."""
        return max(self.children, key=lambda action: (self.counts[action], self.values[action]))

    def likely_child(self, action: int) -> Self | None:
        """The node after `action`, which must have been simulated; None if it ended the episode with a probability above 0.5."""
        child = self.children[action]
        return child if child is not None and child.continue_probability >= 0.5 else None


def make_nodes(node_type: type[N], valuer: ActionValues[S, Any], states: Sequence[S]) -> list[N]:
    """Makes a node of the class `node_type` for each state. `valuer` estimates the values of all states in one batch."""
    return [node_type(state, prior) for state, prior in zip(states, valuer.priors(states), strict=True)] if states else []


def expand(valuer: ActionValues[S, A], model: TransitionModel[S, A], paths: Sequence[Path[N]]) -> None:
    """Simulates the last action of every path in one batch, and adds the resulting nodes to the trees. Skips empty paths, and actions that
    were simulated before. A path is a list of (node, action) from the root down. `valuer` estimates the values of the new states."""
    leaves = [path[-1] for path in paths if path and path[-1][1] not in path[-1][0].children]
    if not leaves:
        return
    actions = [valuer.decode(node.state, int(node.ids[action])) for node, action in leaves]
    outcomes = model.steps([node.state for node, _ in leaves], actions)
    new = iter(make_nodes(type(leaves[0][0]), valuer, [state for state, _, ended in outcomes if ended < 1]))
    for (node, action), (_, reward, ended) in zip(leaves, outcomes, strict=True):
        node.rewards[action], node.children[action] = reward, next(new) if ended < 1 else None
        if (child := node.children[action]) is not None:
            child.continue_probability = 1.0 - ended


def argmax(scores: Floats, rng: np.random.Generator) -> int:
    """The index of the highest score; ties are broken at random."""
    top = int(scores.argmax())
    ties = np.flatnonzero(scores == scores[top])
    return top if len(ties) == 1 else int(ties[rng.integers(len(ties))])


def best_action(root: Node[Any], values: Floats, rng: np.random.Generator) -> int | None:
    """The action of a root with the highest entry in `values` (A,). Of several such actions, the one with the most simulations is taken; if
    these are equal too, one is drawn at random. None if there are no actions."""
    if not len(values):
        return None
    top = np.flatnonzero(values == values.max())
    return int(top[argmax(root.counts[top], rng)])


def principal_variation(root: N) -> Path[N]:
    """The most promising path from the root down to the end of the tree. It takes in each node the action `Node.principal_action`."""
    path: Path[N] = []
    node: N | None = root
    while node is not None and node.children:
        path.append((node, node.principal_action))
        node = node.children[path[-1][1]]
    return path


def depth(root: Node[Any]) -> int:
    """Number of actions on the longest path from the root; 0 if no action was simulated."""
    return max((1 + (depth(child) if child else 0) for child in root.children.values()), default=0)


def size(root: Node[Any]) -> int:
    """Number of simulated actions in a tree."""
    return sum(1 + (size(child) if child else 0) for child in root.children.values())


@dataclass(frozen=True)
class SearchAlgorithm(ABC):
    """Base class of a search algorithm. A subclass is a frozen dataclass, and its fields are its options. Each option is set from the field
    of `SearchOptions` with the same name, if there is one.

    The tree below the chosen action becomes the tree of the next decision, so a root may have been searched before.
    """

    node_type: ClassVar[type[Node[Any]]] = Node
    uses_max_return: ClassVar[bool] = False
    """Whether the nodes of this algorithm have a field `max_return`. If so, the caller sets it at every root to the highest return that is
    possible from there."""

    def make_roots(self, valuer: ActionValues[S, A], states: Sequence[S]) -> list[Any]:
        """Makes the root of a new tree for each state."""
        return make_nodes(self.node_type, valuer, states)

    @abstractmethod
    def search(
        self,
        valuer: ActionValues[S, A],
        model: TransitionModel[S, A],
        roots: Sequence[Any],
        rngs: Sequence[np.random.Generator],
        budget: int,
    ) -> None:
        """Grows the tree of each root by at most `budget` simulated actions. `valuer` estimates the values of actions, and `rngs` has the
        random generator of each tree."""

    def decide(self, root: Any, rng: np.random.Generator) -> int | None:
        """The action to take after a search: by default the action with the highest value. None if there are no actions."""
        return best_action(root, root.values, rng)
