"""An agent that searches: it simulates placements before it makes one. Any agent that estimates the values of actions can be used for
this."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from trilith.search.config import SearchConfig, make_algorithm
from trilith.search.simulator import Simulator
from trilith.search.tree import ActionValues, Node, TransitionModel, principal_variation
from trilith.world.episode import State
from trilith.world.scene import INVALID_EDGE, Placement


@runtime_checkable
class Valuer(ActionValues[State, Placement | None], Protocol):
    """An agent that estimates the value of every action. An action is a placement, or None, which stops the episode."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """Returns one action per state, chosen without search."""


@runtime_checkable
class ValuesByTask(Protocol):
    """An agent that holds a separate agent for each task. The discount factors of these agents may differ."""

    def of(self, task: str) -> Valuer:
        """The agent for one task."""


class SearchAgent:
    """An agent that searches before it acts. Another agent estimates the values of actions. A transition model predicts the outcomes of
    actions; by default it is the simulator.

    The tree below the chosen action is kept for the next decision of the same episode. To find the tree again, an episode is identified by
    its next state and by the state of its random generator after the decision. So a copy of an episode continues exactly like the original.
    The search starts with a new tree if the random generator was replaced or used between two decisions. Two episodes never share a tree,
    even if their states and generators are equal.
    """

    def __init__(self, agent: Valuer, config: SearchConfig, world: TransitionModel[State, Placement | None] | None = None) -> None:
        self.agent, self.config, self.world = agent, config, Simulator() if world is None else world
        self.algorithm = make_algorithm(config)
        self._kept: defaultdict[tuple[State, bytes], list[Node[State]]] = defaultdict(list)
        """Maps each `episode_key` to its kept trees. There are several trees if several episodes have the same key."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """Searches from each state. Returns one placement per state; None if the agent stops or has no action. All states must belong to
        the same task."""
        if not self.config.budget:
            return self.agent.act(states, rngs)
        roots = self.search(states, rngs)
        actions = [self.algorithm.decide(root, rng) for root, rng in zip(roots, rngs, strict=True)]
        for root, action, rng in zip(roots, actions, rngs, strict=True):
            self.keep(root, action, rng)
        return [None if action is None else self._decode(root, action) for root, action in zip(roots, actions, strict=True)]

    def search(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Node[State]]:
        """Searches from each state. Returns the root of each tree. All states must belong to the same task. Pass all running episodes at
        once: the kept trees of other episodes are dropped."""
        kept = [self._pop_kept(state, rng) for state, rng in zip(states, rngs, strict=True)]
        self._kept.clear()  # one call contains all running episodes, so the other trees belong to finished episodes
        valuer = self.agent.of(states[0].task) if states and isinstance(self.agent, ValuesByTask) else self.agent
        new = iter(self.algorithm.make_roots(valuer, [state for state, root in zip(states, kept, strict=True) if root is None]))
        roots: list[Any] = [next(new) if root is None else root for root in kept]
        if self.algorithm.uses_max_return:
            for root in roots:
                rules, scene = root.state.rules, root.state.scene
                root.max_return = rules.best(scene) - rules.score(scene)
        self.algorithm.search(valuer, self.world, roots, rngs, self.config.budget)
        return roots

    def ideas(self, state: State, rng: np.random.Generator, k: int) -> list[tuple[Placement, float, int, tuple[Placement, ...]]]:
        """Searches from a state. Returns at most k placements, best first, as (placement, value, number of simulations, following
        placements). The value is the estimated return. Simulated placements come before all others."""
        [root] = self.search([state], [rng])
        best = sorted(range(len(root.values)), key=lambda action: (action not in root.children, -root.values[action], -root.counts[action]))
        found = []
        for action in best[:k]:
            placement, child = self._decode(root, action), root.children.get(action)
            if placement is not None and placement != INVALID_EDGE:
                found.append((placement, float(root.values[action]), int(root.counts[action]) - 1, self.line(child) if child else ()))
        return found

    def line(self, root: Node[State]) -> tuple[Placement, ...]:
        """The placements along the `principal_variation` from `root`, the path that the search finds most promising. Actions without a
        valid placement are left out."""
        placements = [self._decode(node, action) for node, action in principal_variation(root)]
        return tuple(placement for placement in placements if placement is not None and placement != INVALID_EDGE)

    def keep(self, root: Node[State], action: int | None, rng: np.random.Generator) -> None:
        """Keeps the tree below `action` for the next decision of the episode. `rng` is the episode's generator. Does nothing if the action
        was never simulated or ended the episode."""
        child = None if action is None else root.children.get(action)
        if child is not None:
            self._kept[episode_key(child.state, rng)].append(child)

    def _pop_kept(self, state: State, rng: np.random.Generator) -> Node[State] | None:
        """Returns the tree that was kept for a state, or None. The tree is then no longer kept, so that no other episode grows the same
        tree."""
        trees = self._kept.get(episode_key(state, rng)) if self._kept else None
        return trees.pop(0) if trees else None

    def _decode(self, node: Node[State], action: int) -> Placement | None:
        return self.agent.decode(node.state, int(node.ids[action]))


def episode_key(state: State, rng: np.random.Generator) -> tuple[State, bytes]:
    """The key that identifies an episode at its next decision: the state, and the pickled state of the random generator."""
    return state, pickle.dumps(rng.bit_generator.state)
