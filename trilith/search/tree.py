"""Monte-Carlo tree search over states (paper §E): actions are tried in a world before one is made.

A state is a value, so a node keeps the state itself and no action sequence is ever replayed. A `World` says what follows from
an action, `Values` what can be done and what to expect of it; nothing here knows networks, blocks or physics. Many trees grow
side by side, one simulation each a round, so that all actions of a round are made, and all new states valued, in one batch;
a tree draws from its own generator and never notices the others.

A simulation goes down by an upper confidence bound (at the root also by sequential halving) until it makes an action for the first
time, simulates it, and backs up the best value that is expected of the new state: no playout. What the default does in the same tree
is in `rollouts.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import ceil, inf, log, log2, sqrt
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from trilith.search.config import SearchConfig
from trilith.world.scene import Floats, Ints

S = TypeVar("S")
"""A state."""
A = TypeVar("A")
"""An action as a world takes it."""
S_in = TypeVar("S_in", contravariant=True)
A_in = TypeVar("A_in", contravariant=True)
A_out = TypeVar("A_out", covariant=True)
"""The same where they are only taken, or only given."""


class Prior(NamedTuple):
    """What can be done in a state, and what is expected of it before anything is tried.

    An action is known by its id, a whole number that means something only to the agent that gave it and only in this state:
    that agent's `placement` turns it into what a world takes. Within a tree an action is its place in these arrays.
    """

    values: Floats
    """(A,): expected value of each action; 0 for a raw search."""
    edges: Ints
    """(A,): the edge that each action belongs to, in ascending order."""
    ids: Ints
    """(A,): the id of each action, no two the same."""


class World(Protocol[S, A_in]):
    """What is searched, in batches: the simulator, or a model of it. Deterministic: an action has one outcome."""

    def steps(self, states: Sequence[S], actions: Sequence[A_in]) -> Sequence[tuple[S, float, float]]:
        """After an action in each state: the state that follows, the reward, and whether that was the end, or how likely it was."""
        ...


class Values(Protocol[S_in, A_out]):
    """What values states and actions before they are tried."""

    @property
    def discount(self) -> float:
        """What a reward one step later counts for."""
        ...

    def priors(self, states: Sequence[S_in]) -> list[Prior]:
        """What can be done in each state, which has not ended."""
        ...

    def placement(self, state: S_in, action: int) -> A_out:
        """What a world takes for the action of an id of `priors`."""
        ...


class Plan(NamedTuple):
    """Actions to the end of an episode, simulated as they would be made."""

    action: int
    """The first of them."""
    earned: float
    """What they earn."""
    discounted: float
    """The same, discounted."""
    steps: int


class Node(Generic[S]):
    """A state in a tree, its actions as arrays: there are thousands, and most are never touched."""

    def __init__(self, state: S, prior: Prior, reached: float = 1.0) -> None:
        self.state = state
        self.reached = reached
        """How likely the episode went on to here, after the action that led here; of what a world is sure of, 1."""
        self.ids = prior.ids
        """(A,): as in the prior."""
        self.values = np.array(prior.values, dtype=np.float64)
        """(A,): the prior, or what has been found since."""
        self.children: dict[int, tuple[float, Node[S] | None]] = {}
        """By action: its reward, and the node it leads to; None at an end."""
        self.best = float(self.values.max()) if len(self.values) else 0.0
        """What was expected of the state before anything was tried."""
        self.total = 0.0
        """Sum of the returns from here of all simulations that passed."""
        self.visits = 0
        self.plans: dict[int, Plan] = {}
        """By action: the best way from here to an end that begins with it, of those that rollouts have simulated."""
        self.most = inf
        """No way from here earns more: rollouts that have found one which earns it look no further."""
        self.chosen: int | None = None
        """What rollouts decided on, if they have been made from here."""
        self._edges = prior.edges

    # Most nodes are never gone through again, so what only a choice among their actions needs is made at the first of them.

    @cached_property
    def counts(self) -> Floats:
        """(A,): 1 + how often each action was taken."""
        return np.ones(len(self.values))

    @cached_property
    def order(self) -> Ints:
        """(A,): the actions by what is expected of them, highest first."""
        return np.argsort(-self.values, kind="stable")

    @cached_property
    def first(self) -> Ints:
        """(E + 1,): where the actions of each edge begin."""
        new = np.ones(len(self._edges), dtype=bool)
        new[1:] = self._edges[1:] != self._edges[:-1]
        return np.append(np.flatnonzero(new), len(new))

    @cached_property
    def edge_values(self) -> Floats:
        """(E,): the highest value among the actions of each edge."""
        return np.maximum.reduceat(self.values, self.first[:-1])

    @cached_property
    def edge_counts(self) -> Floats:
        """(E,): sum of their counts."""
        return np.add.reduceat(self.counts, self.first[:-1])

    @property
    def plan(self) -> Plan | None:
        """The best of `plans`."""
        return max(self.plans.values(), key=lambda plan: plan.earned, default=None)

    @property
    def value(self) -> float:
        """What is expected of the state: the mean of what was expected first and of all that simulations found."""
        return (self.best + self.total) / (1 + self.visits)

    def update(self, action: int, value: float) -> None:
        """Notes that an action was taken, and what it is worth by now."""
        self.values[action] = value
        self.counts[action] += 1
        edge = self.first.searchsorted(action, side="right") - 1
        actions = slice(self.first[edge], self.first[edge + 1])
        self.edge_values[edge] = self.values[actions].max()
        self.edge_counts[edge] = self.counts[actions].sum()


FAR_LESS = 0.5
"""An end that brings less than this share of what was expected was a mistake; one that brings more may well be the aim."""
Path = list[tuple[Node[S], int]]
"""Nodes from the root on and the action taken in each."""


def search(
    valuer: Values[S, A], world: World[S, A], roots: Sequence[Node[S]], rngs: Sequence[np.random.Generator], config: SearchConfig
) -> None:
    """Grows the tree of each root by `budget` simulations; with the root `first` by no more than it takes."""
    if config.root == "first":
        _look_first(valuer, world, roots, rngs, config.budget)
        return
    halvings = [_Halving(root, rng, config) if config.root == "halving" else None for root, rng in zip(roots, rngs, strict=True)]
    for i in range(config.budget):
        paths = [_descend(root, rng, config, h.choose(i) if h else None) for root, rng, h in zip(roots, rngs, halvings, strict=True)]
        expand(valuer, world, [path for path in paths if path and path[-1][1] not in path[-1][0].children])
        for path in paths:
            _back_up(path, valuer.discount)


def _look_first(
    valuer: Values[S, A], world: World[S, A], roots: Sequence[Node[S]], rngs: Sequence[np.random.Generator], budget: int
) -> None:
    """Tries the most promising action of each root, and the next as long as that ends the episode for far less than was expected.

    Such an action is worth its reward. Everything else is left at what was expected of it: one look ahead takes mistakes out of the
    order in which the agent would have acted, and does not replace it by one that is only as good as its values of other states.
    """
    for _ in range(budget):
        choices = [(root, _pick(root.values, rng)) for root, rng in zip(roots, rngs, strict=True) if len(root.values)]
        new = [(root, action) for root, action in choices if action not in root.children]
        if not new:
            return
        expand(valuer, world, [[each] for each in new])
        for root, action in new:
            reward, child = root.children[action]
            root.visits += 1
            root.counts[action] += 1
            if (child is None or child.reached < 0.5) and reward < FAR_LESS * root.values[action]:
                root.values[action] = reward


def plant(valuer: Values[S, A], states: Sequence[S], most: int | None = None) -> list[Node[S]]:
    """A node for each state, with at most so many actions, those of the highest values."""
    return [Node(state, _highest(prior, most)) for state, prior in zip(states, valuer.priors(states), strict=True)] if states else []


def _highest(prior: Prior, most: int | None) -> Prior:
    if most is None or len(prior.values) <= most:
        return prior
    # Of equal values, as in a raw search, those that are kept should not lie all together: ids are multiplied as in a hash table.
    ties = (prior.ids * 2654435761 % 2**32) / 2**32
    kept = np.sort(np.argpartition(1e-9 * ties - prior.values, most)[:most])
    return Prior(prior.values[kept], prior.edges[kept], prior.ids[kept])


def decide(root: Node[S], rng: np.random.Generator, config: SearchConfig) -> int | None:
    """What rollouts decided on; else the action of the highest value, of several the most visited; None where nothing can be done."""
    if not len(root.values):
        return None
    if root.chosen is not None:
        return root.chosen
    values = root.values
    if config.root == "halving" and min(config.budget, config.considered) > 1:  # what was left to the end, of which most is known
        values = np.where(root.counts == root.counts.max(), values, -np.inf)
    top = np.flatnonzero(values == values.max())
    return int(top[_pick(root.counts[top], rng)])


def _descend(node: Node[S] | None, rng: np.random.Generator, config: SearchConfig, first: int | None) -> Path[S]:
    """The way to an action that was not taken before, or to an end. `first` is the action at the root, if it is given."""
    path: Path[S] = []
    while node is not None and len(node.values):
        action = _choose(node, rng, config) if first is None or path else first
        path.append((node, action))
        if action not in node.children:
            break
        node = node.children[action][1]
    return path


def _choose(node: Node[S], rng: np.random.Generator, config: SearchConfig) -> int:
    """The action of the highest upper confidence bound, in two stages or in one."""
    width = config.c * sqrt(log(len(node.values) + node.visits))
    if config.stages == 1:
        return _pick(node.values + width / np.sqrt(node.counts), rng)
    edge = _pick(node.edge_values + width / np.sqrt(node.edge_counts), rng)
    first, last = node.first[edge], node.first[edge + 1]
    return int(first) + _pick(node.values[first:last] + width / np.sqrt(node.counts[first:last]), rng)


def expand(valuer: Values[S, A], world: World[S, A], paths: list[Path[S]], most: int | None = None) -> None:
    """Takes the last action of each path, for the first and only time, and adds the node it leads to, with at most so many actions."""
    if not paths:
        return
    leaves = [path[-1] for path in paths]
    actions = [valuer.placement(node.state, int(node.ids[action])) for node, action in leaves]
    outcomes = world.steps([node.state for node, _ in leaves], actions)
    new = iter(plant(valuer, [state for state, _, ended in outcomes if ended < 1], most))
    for (node, action), (_, reward, ended) in zip(leaves, outcomes, strict=True):
        child = next(new) if ended < 1 else None
        if child is not None:
            child.reached = 1.0 - ended
        node.children[action] = reward, child


def _back_up(path: Path[S], discount: float) -> None:
    """Tells every node of a path what came of its action."""
    if not path:
        return
    last = path[-1][0].children[path[-1][1]][1]
    earned = last.best if last else 0.0
    for node, action in reversed(path):
        reward, child = node.children[action]
        later = discount * child.reached if child else 0.0
        earned = reward + later * earned
        node.visits += 1
        node.total += earned
        node.update(action, reward + later * child.value if child else reward)


def _pick(scores: Floats, rng: np.random.Generator) -> int:
    """The place of the highest score, any of several."""
    top = int(scores.argmax())
    ties = np.flatnonzero(scores == scores[top])
    return top if len(ties) == 1 else int(ties[rng.integers(len(ties))])


class _Halving:
    """Sequential halving at a root (Danihelka et al. 2022, without noise): the best few share the simulations, then the better half.

    Visits of a root are counted anew, so that one that is kept from the decision before is halved like any other.
    """

    def __init__(self, root: Node[S], rng: np.random.Generator, config: SearchConfig) -> None:
        self.root, self.rng = root, rng
        root.counts[:] = 1
        root.edge_counts[:] = np.diff(root.first)
        considered = min(config.considered, len(root.values), max(config.budget, 1))
        self.wanted = considered_visits(considered, config.budget)

    def choose(self, simulation: int) -> int | None:
        """The best of the actions that have been taken as often as those still considered."""
        if not len(self.root.values):
            return None
        considered = self.root.counts == 1 + self.wanted[simulation]
        return _pick(np.where(considered, self.root.values, -np.inf), self.rng)


def considered_visits(considered: int, budget: int) -> list[int]:
    """(budget,): how often the action of each simulation has been taken before, if `considered` ones are halved again and again."""
    if considered <= 1:
        return list(range(budget))
    rounds, visits, sequence = ceil(log2(considered)), [0] * considered, list[int]()
    left = considered
    while len(sequence) < budget:
        for _ in range(max(1, budget // (rounds * left))):
            sequence += visits[:left]
            visits[:left] = [each + 1 for each in visits[:left]]
        left = max(2, left // 2)
    return sequence[:budget]


# ---- what a tree knows


def principal_line(root: Node[S]) -> list[int]:
    """The plan from the root on; without one, what simulations took most often, of several the one of the highest value."""
    line: list[int] = []
    node: Node[S] | None = root
    while node is not None and node.children:
        counts, values = node.counts, node.values
        line.append(node.plan.action if node.plan else max(node.children, key=lambda action: (counts[action], values[action])))
        node = node.children[line[-1]][1]
    return line


def depth(root: Node[S]) -> int:
    """Actions from the root to the deepest node."""
    return max((1 + (depth(child) if child else 0) for _, child in root.children.values()), default=0)


def size(root: Node[S]) -> int:
    """Actions that have been simulated below a root."""
    return sum(1 + (size(child) if child else 0) for _, child in root.children.values())
