"""Any agent that values actions acts by search: it tries placements in the simulator before it makes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from trilith.search.config import SearchConfig
from trilith.search.tree import Node, Prior, decide, plant, principal_line, search
from trilith.world.episode import State, step
from trilith.world.scene import Placement


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

    def placement(self, state: State, name: int) -> Placement | None:
        """The placement of an action that `priors` named; None for an invalid edge."""
        ...


class SearchAgent:
    """Acts by tree search over the values of another agent.

    What it knows of a state after its own placement is kept for the next decision. An episode is known by its generator, so
    that two that happen to look alike share nothing, and who asks with a new generator gets a new tree.
    """

    def __init__(self, agent: Valuer, config: SearchConfig, forfeit: bool = False) -> None:
        self.agent, self.config, self.forfeit = agent, config, forfeit
        self._kept: dict[int, tuple[np.random.Generator, Node[State]]] = {}
        """By the id of an episode's generator: that generator, so that no other can have its id, and the tree."""

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
        new = iter(plant(self, [state for state, root in zip(states, roots, strict=True) if root is None]))
        grown = [next(new) if root is None else root for root in roots]
        search(self, grown, rngs, self.config)
        return grown

    def ideas(self, state: State, rng: np.random.Generator, k: int) -> list[tuple[Placement, float, int, tuple[Placement, ...]]]:
        """The best k placements that were tried: each with its value, its visits, and how the search would go on after it."""
        [root] = self.search([state], [rng])
        best = sorted(root.children, key=lambda action: (-root.values[action], -root.counts[action]))[:k]
        found = []
        for action in best:
            placement, child = self._placement(root, action), root.children[action][1]
            if placement is not None:
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
        return tuple(placement for placement in placements if placement is not None)

    # ---- the world that is searched

    @property
    def discount(self) -> float:
        """The agent's."""
        return self.agent.discount

    def priors(self, states: Sequence[State]) -> list[Prior]:
        """The agent's."""
        return self.agent.priors(states)

    def step(self, state: State, name: int) -> tuple[State, float, bool]:
        """By the rules."""
        after = step(state, self.agent.placement(state, name), self.forfeit)
        return after.state, after.reward, after.state.ended is not None

    def _placement(self, node: Node[State], action: int) -> Placement | None:
        return self.agent.placement(node.state, int(node.names[action]))

    # ---- trees of the decision before

    def _taken_up(self, state: State, rng: np.random.Generator) -> Node[State] | None:
        """What is known of a state from the decision before it."""
        _, root = self._kept.get(id(rng), (rng, None))
        return root if root is not None and root.state == state else None

    def keep(self, root: Node[State], action: int | None, rng: np.random.Generator) -> None:
        """Keeps what is known of the state that an action leads to, which the episode of a generator takes next."""
        child = root.children.get(action, (0.0, None))[1] if action is not None else None
        if child is not None:
            self._kept[id(rng)] = rng, child
