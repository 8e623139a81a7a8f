"""What an actor does, as one function: it takes weights and an order, plays whole episodes side by side, and yields them.

Nothing of it outlives an order. So an actor can be this process, another one or another machine, can die and be replaced
at any time, and a run with no actor processes is the same run whenever it is interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from trilith.agents.dqn import choose, observe
from trilith.agents.replay import Episode
from trilith.builders.planner import PLANS
from trilith.episode import State, start, step
from trilith.frozen import frozen
from trilith.nets.batch import Layout
from trilith.nets.qnet import QNet
from trilith.scene import Ints
from trilith.tasks import get_task


class Order(NamedTuple):
    """What the learner asks of an actor."""

    seed: tuple[int, int]
    """Of all that is random in it: the seed of the run and the number of the order."""
    episodes: int
    levels: tuple[float, ...]
    """Probability of each level of the curriculum."""
    epsilon: float
    """Random actions an episode, about; 0: greedy."""
    lengths: tuple[float, ...]
    """Typical number of steps of an episode of each level."""
    demonstrate: bool = False
    """Let the planner build instead of the network."""
    valid: str | None = None
    """Play the validation scenes of this level instead ("all" or "hardest"), `episodes` of them, without exploring."""


class Played(NamedTuple):
    """What came of an order."""

    order: Order
    episodes: list[Episode]
    """Empty for an order to play validation scenes, whose episodes are not learnt from."""
    returns: list[float]


def collect(net: QNet, task: str, order: Order) -> Played:
    """Plays the episodes of an order with a network. The same arguments always give the same episodes."""
    if order.valid:
        return Played(order, [], play_greedily(net, valid_states(task, order.valid, order.episodes)))
    rng = np.random.default_rng(order.seed)
    rules = get_task(task)
    levels = rng.choice(len(order.levels), size=order.episodes, p=order.levels)
    starts = [start(rules, rules.levels[level], rng) for level in levels]
    if order.demonstrate:
        episodes = [episode for first in starts if (episode := _demonstrate(net.layout, first))]
        return Played(order, episodes, [float(e.rewards.sum()) for e in episodes])
    episodes = [e for e in _play(net, starts, order.epsilon, [order.lengths[level] for level in levels], rng) if len(e.actions)]
    return Played(order, episodes, [float(e.rewards.sum()) for e in episodes])


def play_greedily(net: QNet, starts: Sequence[State]) -> list[float]:
    """The return of each episode, without exploring."""
    episodes = _play(net, starts, 0.0, [1.0] * len(starts), np.random.default_rng(0))
    return [float(e.rewards.sum()) for e in episodes]


@lru_cache(maxsize=4)
def valid_states(task: str, level: str, count: int) -> tuple[State, ...]:
    """The first scenes of a validation set."""
    return tuple(frozen(task, level, "valid", i) for i in range(count))


def _demonstrate(layout: Layout, first: State) -> Episode | None:
    """The episode that the planner builds, as actions of the layout; None if it would build nothing."""
    state, steps = first, []
    for placement in PLANS[first.task](first):
        action = layout.encode(state.scene, placement)
        after = step(state, layout.decode(state.scene, action))
        steps.append(_Step(observe(layout, [state.scene])[0], np.array(action), after.reward, 0.0, 0.0))
        state = after.state
        if state.ended:
            break
    return _episode(layout, first, steps) if steps else None


class _Step(NamedTuple):
    """One step of an episode as it is played."""

    record: np.void
    action: Ints
    reward: float
    taken: float
    """Value of the action by the actor's network."""
    best: float
    """Value of the best one."""


def _play(net: QNet, starts: Sequence[State], epsilon: float, lengths: Sequence[float], rng: np.random.Generator) -> list[Episode]:
    """Episodes from given beginnings to their ends, all side by side."""
    layout = net.layout
    states = list(starts)
    steps: list[list[_Step]] = [[] for _ in states]
    running = list(range(len(states)))
    n = 0
    while running:
        records = observe(layout, [states[i].scene for i in running])
        left = np.array([max(lengths[i] - n, 1.0) for i in running])
        random = rng.random(len(running)) < epsilon / left
        choice = choose(net, records, random, rng)
        on = []
        for record, action, taken, best, i in zip(records, *choice, running, strict=True):
            if action[0] < 0:  # nothing can be placed: the episode is over, and what led here was its last step
                continue
            after = step(states[i], layout.decode(states[i].scene, action.tolist()))
            steps[i].append(_Step(record, action, after.reward, float(taken), float(best)))
            states[i] = after.state
            if not after.state.ended:
                on.append(i)
        running = on
        n += 1
    return [_episode(layout, first, played) for first, played in zip(starts, steps, strict=True)]


def _episode(layout: Layout, first: State, steps: list[_Step]) -> Episode:
    rules = first.rules
    later = [each.best for each in steps[1:]] + [0.0]  # what followed was worth; nothing at the end
    return Episode(
        records=np.array([each.record for each in steps], dtype=layout.dtype),
        actions=np.array([each.action for each in steps], dtype=np.int32).reshape(-1, 4),
        rewards=np.array([each.reward for each in steps], dtype=np.float32),
        errors=np.array([s.reward + value - s.taken for s, value in zip(steps, later, strict=True)], dtype=np.float32),
        level=rules.levels.index(int(first.level)) if first.level in rules.levels else -1,
        best=rules.best(first.scene),
    )
