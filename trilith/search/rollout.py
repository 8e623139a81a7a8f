"""Rollout search, the default: episodes are simulated to their end, and the best one found becomes the plan.

A rollout leaves the tree by an untried action, then takes the action with the highest value in each state until the episode ends.
One simulation is one action of a rollout. The return of a finished rollout is exact, as the transition model is deterministic.
The next rollout starts with the untried action, anywhere in the tree, that has the highest estimated return.

The plan is the finished rollout with the highest return. Only a better rollout replaces it, so the decision is never worse than a
known plan (fortified rollout: Bertsekas, Tsitsiklis and Wu 1997). There is one exception: if the plan earns less than half of the
estimate of an unfinished rollout, the decision follows that rollout. A plan with the highest possible return ends the search.

The tree is kept between decisions, so even a small budget soon reaches the end of the episode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trilith.search.lookahead import FAR_LESS
from trilith.search.tree import A, ActionValues, Node, Path, Prior, S, SearchAlgorithm, TransitionModel, best_action, expand

if TYPE_CHECKING:
    from trilith.world.scene import Ints

MAX_ACTIONS = 64
"""Maximum number of actions in a node: those with the highest values. The limit saves memory, because there are many nodes."""
VALUE_ERROR = 1.0
"""Assumed error of values, in units of reward. An action is not tried if its estimated return is lower than the plan's by more than
this."""
ROUNDING = 1e-6
"""Rounding error of a sum of rewards, in units of reward."""


class Plan(NamedTuple):
    """The actions of a finished rollout, from one node to the end."""

    action: int
    """The first action."""
    earned: float
    """Sum of rewards."""
    discounted: float
    """Discounted sum of rewards."""
    steps: int
    """Number of actions."""


class RolloutNode(Node[S]):
    """A node with the best finished rollout of each action."""

    max_return = inf
    """Upper bound of the return of rollouts from this node. It is set only for roots."""
    decision: int | None = None
    """The decision of the last search from this node."""

    def __init__(self, state: S, prior: Prior) -> None:
        super().__init__(state, top_actions(prior, MAX_ACTIONS))
        self.plans: dict[int, Plan] = {}
        """Best finished rollout of each action."""

    @cached_property
    def order(self) -> Ints:
        """(A,): the actions from the highest prior value to the lowest, the order in which they are tried."""
        return np.argsort(-self.values, kind="stable")

    @property
    def next_action(self) -> int:
        """The untried action with the highest value."""
        return int(self.order[len(self.children)])

    @property
    def plan(self) -> Plan | None:
        """Best finished rollout over all actions."""
        return max(self.plans.values(), key=lambda plan: plan.earned, default=None)

    @property
    def principal_action(self) -> int:
        """The first action of the plan. Without a plan, as in `Node`."""
        return self.plan.action if self.plan else super().principal_action


@dataclass(frozen=True)
class Rollout(SearchAlgorithm):
    """Rollout search: follows the best plan, and looks for a better one."""

    node_type = RolloutNode
    uses_max_return = True

    def search(
        self,
        valuer: ActionValues[S, A],
        model: TransitionModel[S, A],
        roots: Sequence[RolloutNode[S]],
        rngs: Sequence[np.random.Generator],
        budget: int,
    ) -> None:
        """Simulates at most `budget` actions in each tree, one per round."""
        discount = valuer.discount
        paths: list[Path[RolloutNode[S]]] = [[] for _ in roots]
        for i in range(budget):
            paths = [extend(path, discount) or branch(root, discount, budget, i) for root, path in zip(roots, paths, strict=True)]
            if not any(paths):
                break
            expand(valuer, model, paths)
            for path in paths:
                back_up(path, discount)
        for root in roots:
            root.decision = choose(root, discount)

    def decide(self, root: RolloutNode[S], rng: np.random.Generator) -> int | None:
        """The decision of the last search from this root. Without a search, the action with the highest value."""
        return best_action(root, root.values, rng) if root.decision is None else root.decision


def extend(path: Path[RolloutNode[S]], discount: float) -> Path[RolloutNode[S]]:
    """Adds one action to an unfinished rollout. Returns an empty path if the rollout is finished, or if its estimated return is now
    too low."""
    tip = path[-1][0].likely_child(path[-1][1]) if path else None
    if tip is None or not len(tip.values):
        return []
    estimate, plan = tip.prior_value, path[0][0].plan
    for node, action in reversed(path):
        estimate = node.rewards[action] + discount * estimate
    return [*path, (tip, tip.next_action)] if plan is None or estimate > plan.discounted - VALUE_ERROR else []


def branch(root: RolloutNode[S], discount: float, budget: int, spent: int) -> Path[RolloutNode[S]]:
    """The path to the untried action with the highest estimated return. Empty if all estimates are too low, or if the plan is optimal.

    A new rollout, assumed to be as long as the plan, must be finished before its untried action has to be made. The simulations until
    then are the remaining ones of this decision, and `budget` for each decision on the path.
    """
    plan = root.plan
    if plan is not None and plan.earned >= root.max_return - ROUNDING:
        return []
    highest, steps = (plan.discounted - VALUE_ERROR, plan.steps) if plan else (-inf, 0)
    chosen: Path[RolloutNode[S]] = []
    for path, node, earned, weight in open_nodes(root, discount):
        if len(node.children) < len(node.values) and (budget - spent) + budget * len(path) >= steps - len(path):
            estimate = earned + weight * float(node.values[node.next_action])
            if estimate > highest:
                highest, chosen = estimate, [*path, (node, node.next_action)]
    return chosen


def back_up(path: Path[RolloutNode[S]], discount: float) -> None:
    """Counts a simulation in each node of its path. If the simulation finished the rollout, each node stores its return, if that is
    the best so far."""
    for node, action in path:
        node.visits += 1
        node.counts[action] += 1
    tip = path[-1][0].likely_child(path[-1][1]) if path else None
    if tip is not None and len(tip.values):
        return
    earned = discounted = 0.0
    for steps, (node, action) in enumerate(reversed(path), 1):
        earned, discounted = node.rewards[action] + earned, node.rewards[action] + discount * discounted
        if action not in node.plans or earned > node.plans[action].earned:
            node.plans[action] = Plan(action, earned, discounted, steps)
            node.values[action] = discounted


def choose(root: RolloutNode[S], discount: float) -> int | None:
    """The first action of the plan. If an unfinished rollout has a far higher estimate, or if there is no plan, the first action of
    that rollout."""
    plan = root.plan
    highest, chosen = (max(plan.discounted, plan.discounted / FAR_LESS), plan.action) if plan else (-inf, None)
    for path, node, earned, weight in open_nodes(root, discount):
        if path and not node.children and len(node.values):
            estimate = min(earned + weight * node.prior_value, root.max_return)
            if estimate > highest:
                highest, chosen = estimate, path[0][1]
    return chosen


def open_nodes(root: RolloutNode[S], discount: float) -> Iterator[tuple[Path[RolloutNode[S]], RolloutNode[S], float, float]]:
    """Yields every node in which the episode continues, as (path to the node, node, discounted reward of the path, discount at the
    node)."""
    stack: list[tuple[Path[RolloutNode[S]], RolloutNode[S], float, float]] = [([], root, 0.0, 1.0)]
    while stack:
        path, node, earned, weight = stack.pop()
        yield path, node, earned, weight
        for action, reward in node.rewards.items():
            if (child := node.likely_child(action)) is not None:
                stack.append(([*path, (node, action)], child, earned + weight * reward, weight * discount))


def top_actions(prior: Prior, count: int) -> Prior:
    """The `count` actions with the highest values, or all if there are fewer. Ties are broken by a hash of the id, so that a search
    without a network tries actions of all kinds."""
    if len(prior.values) <= count:
        return prior
    ties = (prior.ids * 2654435761 % 2**32) / 2**32  # multiplicative hashing
    kept = np.sort(np.argpartition(1e-9 * ties - prior.values, count)[:count])
    return Prior(prior.values[kept], prior.edges[kept], prior.ids[kept])
