"""Rollouts that are kept: lines of actions are simulated to their end, and the best one so far is followed until there is a better one.

A tree search backs up what is expected of the states it gets to. Here a simulation goes on where the last one stopped, by the
action of the highest value, until the episode is over: what such a line earns is known, not expected. The next line then leaves the
tree where an action that was not tried yet promises most. The world is deterministic, so the best line is a plan that earns what it
earned when it was simulated, and nothing is done that is known to be worse (a fortified rollout: Bertsekas, Tsitsiklis and Wu 1997).
A plan that earns all there is to earn is carried out without another look.
Only where a plan earns less than half of what a line promises that is still on its way, it is left for that.

The tree is kept from decision to decision, so that even a small budget soon looks ahead to the end of the episode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from trilith.search.tree import FAR_LESS, A, Node, Path, Plan, S, Values, World, expand

MOST = 64
"""Actions of a state, those of the highest values, that may ever be tried: nodes are many here, and small this way."""
DOUBT = 1.0
"""What promises less than the plan by more than this is not tried, nor gone on with; values may be wrong by less."""
ROUNDING = 1e-6
"""By how much the sum of a line's rewards may fall short of what it is."""


def search_rollouts(valuer: Values[S, A], world: World[S, A], roots: Sequence[Node[S]], budget: int) -> None:
    """Simulates up to `budget` actions below each root, one each a round."""
    discount = valuer.discount
    lines: list[Path[S]] = [[] for _ in roots]
    for i in range(budget):
        lines = [_longer(line, discount) or _new(root, discount, budget, budget - i) for root, line in zip(roots, lines, strict=True)]
        grown = [line for line in lines if line]
        if not grown:
            break
        expand(valuer, world, grown, MOST)
        for line in grown:
            _note(line, discount)
    for root in roots:
        root.chosen = _decision(root, discount)


def _longer(line: Path[S], discount: float) -> Path[S]:
    """The line with the best action of the state it leads to; none if it is at its end, or promises too little by now."""
    tip = _after(*line[-1]) if line else None
    if tip is None or not len(tip.values):
        return []
    expected, plan = tip.best, line[0][0].plan
    for node, action in reversed(line):
        expected = node.children[action][0] + discount * expected
    return [*line, (tip, _next(tip))] if plan is None or expected > plan.discounted - DOUBT else []


def _new(root: Node[S], discount: float, budget: int, left: int) -> Path[S]:
    """The way to the action that promises most of all that were not tried; none if all promise too little, or the plan earns all there is.

    Only where a line about as long as the plan could be simulated to its end before its first new action has to be made: by what is
    `left` of the budget, and those of the decisions until then.
    """
    plan = root.plan
    if plan is not None and plan.earned >= root.most - ROUNDING:
        return []
    most, steps = (plan.discounted - DOUBT, plan.steps) if plan else (-inf, 0)
    chosen: Path[S] = []
    for way, node, earned, weight in _reached(root, discount):
        if len(node.children) < len(node.values) and left + budget * len(way) >= steps - len(way):
            action = _next(node)
            if earned + weight * node.values[action] > most:
                most, chosen = earned + weight * float(node.values[action]), [*way, (node, action)]
    return chosen


def _decision(root: Node[S], discount: float) -> int | None:
    """The first action of the plan; of the most promising line that is not at its end, if there is no plan, or one that earns far less."""
    plan = root.plan
    most, chosen = (max(plan.discounted, plan.discounted / FAR_LESS), plan.action) if plan else (-inf, None)
    for way, node, earned, weight in _reached(root, discount):
        if way and not node.children and len(node.values):
            promised = min(earned + weight * node.best, root.most)
            if promised > most:
                most, chosen = promised, way[0][1]
    return chosen


def _reached(root: Node[S], discount: float) -> Iterator[tuple[Path[S], Node[S], float, float]]:
    """The states below a root in which an episode goes on: the way there, what it earns, discounted, and what a reward there counts for."""
    ways: list[tuple[Path[S], Node[S], float, float]] = [([], root, 0.0, 1.0)]
    while ways:
        way, node, earned, weight = ways.pop()
        yield way, node, earned, weight
        for action, (reward, _) in node.children.items():
            child = _after(node, action)
            if child is not None:
                ways.append(([*way, (node, action)], child, earned + weight * reward, weight * discount))


def _next(node: Node[S]) -> int:
    """The action of the highest value that was not tried: they are tried in this order."""
    return int(node.order[len(node.children)])


def _after(node: Node[S], action: int) -> Node[S] | None:
    """The state after an action that was tried, None if the episode is over there, or likely is."""
    child = node.children[action][1]
    return child if child is not None and child.reached >= 0.5 else None


def _note(line: Path[S], discount: float) -> None:
    """Counts a simulation in every node of a line and, if it was the end, tells them what the line earned from there on."""
    for node, action in line:
        node.visits += 1
        node.counts[action] += 1
    tip = _after(*line[-1])
    if tip is not None and len(tip.values):
        return
    earned = discounted = 0.0
    for k, (node, action) in enumerate(reversed(line)):
        reward = node.children[action][0]
        earned, discounted = reward + earned, reward + discount * discounted
        known = node.plans.get(action)
        if known is None or earned > known.earned:
            node.plans[action] = Plan(action, earned, discounted, k + 1)
            node.values[action] = discounted
