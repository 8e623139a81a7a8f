"""Rollout search, the default algorithm. It simulates episodes to their end; the best episode found becomes the plan.

A rollout starts with an untried action somewhere in the tree, then takes the action with the highest value in each state until the episode
ends. One simulation is one action of a rollout. The return of a finished rollout is exact, because the transition model is deterministic.
Of all untried actions in the tree, the next rollout starts with the one that has the highest estimated return.

The plan is the finished rollout with the highest return. Only a better rollout replaces it, so the decision is never worse than a known
plan (fortified rollout: Bertsekas, Tsitsiklis and Wu 1997). There is one exception: if the return of the plan is less than half of the
estimated return of an unfinished rollout, the decision follows that rollout. The search ends early if the plan has the highest possible
return.

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
"""Maximum number of actions that a node stores: the actions with the highest values. The limit saves memory, because there are many
nodes."""
VALUE_ERROR = 1.0
"""Assumed error of estimated values, in units of reward. An action is tried only if its estimated return plus this error is above the
discounted return of the plan."""
ROUNDING = 1e-6
"""Tolerance for rounding errors in a sum of rewards."""


class Plan(NamedTuple):
    """A summary of a finished rollout: the sequence of actions from one node to the end of the episode."""

    action: int
    """The first action."""
    earned: float
    """Sum of rewards."""
    discounted: float
    """Discounted sum of rewards."""
    steps: int
    """Number of actions."""


class RolloutNode(Node[S]):
    """A node that stores the best finished rollout of each action."""

    max_return = inf
    """Upper bound of the return from this node. It is set only for roots."""
    decision: int | None = None
    """The action that the last search from this node decided for. None before a search, or if the search found no rollout."""

    def __init__(self, state: S, prior: Prior) -> None:
        super().__init__(state, top_actions(prior, MAX_ACTIONS))
        self.plans: dict[int, Plan] = {}
        """Maps an action to the best finished rollout that begins with it."""

    @cached_property
    def order(self) -> Ints:
        """(A,): the actions in the order in which they are tried, from the highest prior value to the lowest."""
        return np.argsort(-self.values, kind="stable")

    @property
    def next_action(self) -> int:
        """The untried action with the highest prior value. There must be one."""
        return int(self.order[len(self.children)])

    @property
    def plan(self) -> Plan | None:
        """The finished rollout with the highest `Plan.earned` over all actions; None if no rollout is finished."""
        return max(self.plans.values(), key=lambda plan: plan.earned, default=None)

    @property
    def principal_action(self) -> int:
        """The first action of the finished rollout with the highest return. If no rollout is finished: the action that was simulated most
        often, as in `Node`."""
        return self.plan.action if self.plan else super().principal_action


@dataclass(frozen=True)
class Rollout(SearchAlgorithm):
    """Rollout search: simulates episodes to their end, and follows the best one found so far. The module explains the algorithm."""

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
        """Simulates at most `budget` actions in each tree. Each round simulates one action of every tree in one batch."""
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
        """The action that the last search from this root decided for. If there is none, the action with the highest value. None if there
        are no actions."""
        return best_action(root, root.values, rng) if root.decision is None else root.decision


def extend(path: Path[RolloutNode[S]], discount: float) -> Path[RolloutNode[S]]:
    """Continues a rollout: returns `path` with the next action to simulate appended. A path is a list of (node, action) from the root down.
    Returns an empty path if `path` is empty, if the rollout is finished, or if its estimated return is lower than the discounted return of
    the root's plan by `VALUE_ERROR` or more. `discount` is the discount factor."""
    tip = path[-1][0].likely_child(path[-1][1]) if path else None
    if tip is None or not len(tip.values):
        return []
    estimate, plan = tip.prior_value, path[0][0].plan
    for node, action in reversed(path):
        estimate = node.rewards[action] + discount * estimate
    return [*path, (tip, tip.next_action)] if plan is None or estimate > plan.discounted - VALUE_ERROR else []


def branch(root: RolloutNode[S], discount: float, budget: int, spent: int) -> Path[RolloutNode[S]]:
    """Starts a rollout: returns the path to the untried action with the highest estimated return. A path is a list of (node, action) from
    the root down. The plan is the finished rollout with the highest return so far. The path is empty if the plan has the highest possible
    return, or if no estimate is above the discounted return of the plan minus `VALUE_ERROR`.

    An untried action at depth d is considered only if its rollout can be finished before the agent reaches the action, that is, if

        (budget - spent) + d · budget >= n - d

    Here n is the number of steps of the plan; the rollout is assumed to end after as many steps. Each decision has `budget` simulations, of
    which this one has used `spent`.
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
    """Counts a simulation in every node of `path`, a list of (node, action) from the root down. If the last action finished the rollout,
    every node on the path stores the rollout for its action, unless it already has one for this action with the same or a higher sum of
    rewards. The value of the action then becomes the discounted return of the rollout."""
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
    """Returns the action to take at the root after a search. `discount` is the discount factor.

    Two rollouts compete: the plan, which is the finished one with the highest return, and the unfinished one with the highest estimated
    return. The plan wins, unless its discounted return is lower than the estimate and than half of it (see `FAR_LESS`). If there is only
    one of the two, it wins. The result is the first action of the winner; None if there is no rollout.
    """
    plan = root.plan
    highest, chosen = (max(plan.discounted, plan.discounted / FAR_LESS), plan.action) if plan else (-inf, None)
    for path, node, earned, weight in open_nodes(root, discount):
        if path and not node.children and len(node.values):
            estimate = min(earned + weight * node.prior_value, root.max_return)
            if estimate > highest:
                highest, chosen = estimate, path[0][1]
    return chosen


def open_nodes(root: RolloutNode[S], discount: float) -> Iterator[tuple[Path[RolloutNode[S]], RolloutNode[S], float, float]]:
    """Yields every node of the tree in which the episode continues, as (path, node, earned, weight). `path` is the list of (node, action)
    from the root to this node, `earned` is the discounted sum of rewards on the path, and `weight` is `discount` to the power of the path's
    length."""
    stack: list[tuple[Path[RolloutNode[S]], RolloutNode[S], float, float]] = [([], root, 0.0, 1.0)]
    while stack:
        path, node, earned, weight = stack.pop()
        yield path, node, earned, weight
        for action, reward in node.rewards.items():
            if (child := node.likely_child(action)) is not None:
                stack.append(([*path, (node, action)], child, earned + weight * reward, weight * discount))


def top_actions(prior: Prior, count: int) -> Prior:
    """Returns the `count` actions with the highest values in `prior`, or all if there are fewer. Ties are broken by a hash of the action's
    id. So a search without a network, where all values are equal, keeps a varied selection of actions."""
    if len(prior.values) <= count:
        return prior
    ties = (prior.ids * 2654435761 % 2**32) / 2**32  # multiplicative hashing
    kept = np.sort(np.argpartition(1e-9 * ties - prior.values, count)[:count])
    return Prior(prior.values[kept], prior.edges[kept], prior.ids[kept])
