"""Any agent that values actions acts by search: it tries placements in a world, by default the simulator, before it makes one."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from trilith.search.config import SearchConfig
from trilith.search.rollout import MOST, search_rollouts
from trilith.search.simulator import Simulator
from trilith.search.tree import Node, Prior, World, decide, plant, principal_line, search
from trilith.world.episode import State
from trilith.world.scene import INVALID_EDGE, Placement


@runtime_checkable
class Valuer(Protocol):
    """An agent that says what it expects of every action."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """As of any agent: without search."""
        ...

    @property
    def discount(self) -> float:
        """What a reward one step later counts for."""
        ...

    def priors(self, states: Sequence[State]) -> list[Prior]:
        """The actions it would consider in each state, and their values."""
        ...

    def placement(self, state: State, action: int) -> Placement | None:
        """The placement of the action of an id of `priors`; None for stopping."""
        ...


@runtime_checkable
class ValuesByTask(Protocol):
    """One that values the actions of each task by another agent, which may discount otherwise."""

    def of(self, task: str) -> Valuer:
        """The agent of a task."""
        ...


class SearchAgent:
    """Acts by tree search over the values of another agent, in a world: without one, in the simulator.

    What it knows of a state after its own placement is kept for the next decision. An episode is known by where it stands: the
    state that follows the placement and the state of its generator after the decision. So two that look alike side by side
    share nothing (were even their generators alike, each takes a tree of its own); a copy of an episode goes on as the episode
    would; and who asks with another generator, or has drawn from it in between, gets a new tree.
    """

    def __init__(
        self, agent: Valuer, config: SearchConfig, world: World[State, Placement | None] | None = None, bounded: bool = True
    ) -> None:
        self.agent, self.config, self.world = agent, config, Simulator() if world is None else world
        self.bounded = bounded
        """Whether rollouts stop at a plan that earns the most there is, which the task says."""
        self._kept: defaultdict[tuple[State, bytes], list[Node[State]]] = defaultdict(list)
        """By where an episode stands: its tree; one each of several that stand at the same."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """The placement of the highest value after the search, in each state; None where the agent allows none."""
        if not self.config.budget:
            return self.agent.act(states, rngs)
        roots = self.search(states, rngs)
        actions = [decide(root, rng, self.config) for root, rng in zip(roots, rngs, strict=True)]
        for root, action, rng in zip(roots, actions, rngs, strict=True):
            self.keep(root, action, rng)
        return [None if a is None else self._placement(root, a) for root, a in zip(roots, actions, strict=True)]

    def search(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Node[State]]:
        """The searched tree of each state."""
        roots = [self._taken_up(state, rng) for state, rng in zip(states, rngs, strict=True)]
        self._kept.clear()  # who plays several episodes asks for all of them at once, so the others have ended
        valuer = self.agent.of(states[0].task) if states and isinstance(self.agent, ValuesByTask) else self.agent
        rollouts = self.config.root == "rollout"
        fresh = [state for state, root in zip(states, roots, strict=True) if root is None]
        new = iter(plant(valuer, fresh, MOST if rollouts else None))
        grown = [next(new) if root is None else root for root in roots]
        if rollouts:
            for root in grown if self.bounded else ():
                rules, scene = root.state.rules, root.state.scene
                root.most = rules.best(scene) - rules.score(scene)
            search_rollouts(valuer, self.world, grown, self.config.budget)
        else:
            search(valuer, self.world, grown, rngs, self.config)
        return grown

    def ideas(self, state: State, rng: np.random.Generator, k: int) -> list[tuple[Placement, float, int, tuple[Placement, ...]]]:
        """The best k placements: each with its value, its visits, and how the search would go on after it; those that were tried first."""
        [root] = self.search([state], [rng])
        best = sorted(range(len(root.values)), key=lambda action: (action not in root.children, -root.values[action], -root.counts[action]))
        found = []
        for action in best[:k]:
            placement, child = self._placement(root, action), root.children.get(action, (0.0, None))[1]
            if placement is not None and placement != INVALID_EDGE:
                found.append((placement, float(root.values[action]), int(root.counts[action]) - 1, self.line(child) if child else ()))
        return found

    def line(self, root: Node[State]) -> tuple[Placement, ...]:
        """The placements that the search would make from a node on, so far as it has looked."""
        node, placements = root, []
        for action in principal_line(root):
            placements.append(self._placement(node, action))
            child = node.children[action][1]
            if child is None:
                break
            node = child
        return tuple(placement for placement in placements if placement is not None and placement != INVALID_EDGE)

    def keep(self, root: Node[State], action: int | None, rng: np.random.Generator) -> None:
        """Keeps what is known of the state that an action leads to, for the next decision of the episode of a generator."""
        child = root.children.get(action, (0.0, None))[1] if action is not None else None
        if child is not None:
            self._kept[_standing(child.state, rng)].append(child)

    def _taken_up(self, state: State, rng: np.random.Generator) -> Node[State] | None:
        """What is known of a state from the decision before it. Given away: no two episodes grow the same tree."""
        kept = self._kept.get(_standing(state, rng)) if self._kept else None
        return kept.pop(0) if kept else None

    def _placement(self, node: Node[State], action: int) -> Placement | None:
        return self.agent.placement(node.state, int(node.ids[action]))


def _standing(state: State, rng: np.random.Generator) -> tuple[State, bytes]:
    """Where an episode stands, as a key."""
    return state, pickle.dumps(rng.bit_generator.state)
