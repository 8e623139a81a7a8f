"""What an actor does, as one function: it takes weights and an order, plays whole episodes side by side, and yields them.

Nothing of it outlives an order. So an actor can be this process, another one or another machine, can die and be replaced
at any time, and a run with no actor processes is the same run whenever it is interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from trilith.agents.dqn.policy import Choice, DQNAgent, choose, observe
from trilith.agents.replay import Episode
from trilith.builders.planner import PLANS
from trilith.evaluation.frozen import frozen
from trilith.nets.batch import Layout, Records, reference_rows
from trilith.nets.qnet import QNet
from trilith.search.agent import SearchAgent
from trilith.search.config import SearchConfig
from trilith.search.simulator import Simulator
from trilith.search.tree import Node, decide
from trilith.world.episode import State, collides, start, step
from trilith.world.scene import SLOTS, Bools, Role, Scene
from trilith.world.tasks import get_task


class Order(NamedTuple):
    """What the learner asks of an actor."""

    seed: tuple[int, int]
    """Of all that is random in it: the seed of the run and the number of the order. Nothing is in an evaluation."""
    episodes: int
    levels: tuple[float, ...]
    """Probability of each level of the curriculum."""
    epsilon: float
    """Random actions an episode, about; 0: greedy."""
    lengths: tuple[float, ...]
    """Typical number of steps of an episode of each level."""
    search: SearchConfig = SearchConfig()
    """How to search; with budget 0 not at all."""
    discount: float = 0.99
    """What a reward one step later counts for in a search."""
    demonstrate: bool = False
    """Let the planner build instead of the network."""
    by_chance: bool = False
    """Let a builder place whatever overlaps nothing instead of the network; where it explores, whatever the mask allows."""
    forfeit: bool = False
    """Whether touching an obstacle takes back all that was earned."""
    valid: int | None = None
    """The evaluation that is due at this learner step: play `episodes` validation scenes of the hardest level and of all
    levels each instead, without exploring."""


class Played(NamedTuple):
    """What came of an order."""

    order: Order
    episodes: list[Episode]
    """Empty for an evaluation, whose episodes are not learnt from."""
    valid: dict[str, float]
    """What an evaluation gave: the mean return on "hardest" and "all" scenes."""


def collect(net: QNet, task: str, order: Order) -> Played:
    """Plays the episodes of an order with a network. The same arguments always give the same episodes."""
    if order.valid is not None:
        sets = {level: valid_states(task, level, order.episodes) for level in ("hardest", "all")}
        return Played(order, [], {level: float(np.mean(play_greedily(net, states, order.forfeit))) for level, states in sets.items()})
    rng = np.random.default_rng(order.seed)
    rules = get_task(task)
    levels = rng.choice(len(order.levels), size=order.episodes, p=order.levels)
    starts = [start(rules, rules.levels[level], rng) for level in levels]
    if order.demonstrate:
        episodes = [episode for first in starts if (episode := _demonstrate(net.layout, first, order.forfeit))]
        return Played(order, episodes, {})
    lengths = [order.lengths[level] for level in levels]
    if order.by_chance:
        choice = _by_chance(net)
    else:
        choice = _by_search(net, order, starts) if order.search.budget else _by_value(net)
    episodes = [e for e in _play(net.layout, choice, starts, order.epsilon, lengths, rng, order.forfeit) if len(e.actions)]
    return Played(order, episodes, {})


def play_greedily(net: QNet, starts: Sequence[State], forfeit: bool = False) -> list[float]:
    """The return of each episode, without exploring."""
    episodes = _play(net.layout, _by_value(net, net.stops), starts, 0.0, [1.0] * len(starts), np.random.default_rng(0), forfeit)
    return [float(e.rewards.sum()) for e in episodes]


@lru_cache(maxsize=4)
def valid_states(task: str, level: str, count: int) -> tuple[State, ...]:
    """The first scenes of a validation set."""
    return tuple(frozen(task, level, "valid", i) for i in range(count))


def _demonstrate(layout: Layout, first: State, forfeit: bool) -> Episode | None:
    """The episode that the planner builds, as the nearest actions of the layout.

    None if it would build nothing, or if these are not near enough and what it builds breaks: its own grid is the default one.
    """
    state, steps = first, []
    for placement in PLANS[first.task](first):
        action = layout.encode(state.scene, placement)
        after = step(state, layout.decode(state.scene, action), forfeit)
        steps.append(_Step(observe(layout, [state.scene])[0], after.reward, Choice(np.array(action))))
        state = after.state
        if state.ended:
            break
    return _episode(layout, first, steps) if steps and state.ended in (None, "complete", "max_steps") else None


class _Step(NamedTuple):
    """One step of an episode as it is played."""

    record: np.void
    reward: float
    choice: Choice


Chooser = Callable[[Sequence[int], Sequence[State], Records, Bools, np.random.Generator], list[Choice | None]]
"""What to do, given the numbers of some episodes, their states, the records of these, where to explore, and a generator."""


def _by_value(net: QNet, stops: bool = False) -> Chooser:
    """By the values of a network. To stop would end what there is to learn from, so only who is evaluated does."""
    return lambda _, __, records, random, rng: choose(net, records, random, rng, stops)


def _by_chance(net: QNet) -> Chooser:
    """Any placement that overlaps nothing, sticky or not; where to explore, any that the mask allows."""
    layout = net.layout

    def chosen(scene: Scene, rng: np.random.Generator) -> Choice | None:
        sticky, mask = int(rng.integers(2)), layout.codec.mask(scene)
        if mask is not None:
            refs = reference_rows(scene)
            free = np.argwhere(mask[:, refs].reshape(SLOTS, len(refs), -1))
            if not len(free):
                return None
            slot, ref, offset = free[rng.integers(len(free))].tolist()
            return Choice(np.array([slot, SLOTS + ref, offset, sticky]))
        for flat in rng.permutation(SLOTS * layout.offsets).tolist():
            slot, offset = divmod(flat, layout.offsets)
            if scene.role[slot] == Role.AVAILABLE:
                there = layout.decode(scene, (slot, 0, offset, sticky))
                if there and not collides(scene, there, scene.solid):
                    return Choice(np.array([slot, 0, offset, sticky]))
        return None

    def chooser(
        _: Sequence[int], states: Sequence[State], records: Records, random: Bools, rng: np.random.Generator
    ) -> list[Choice | None]:
        choices = [None if explore else chosen(state.scene, rng) for state, explore in zip(states, random.tolist(), strict=True)]
        if random.any():
            for i, choice in zip(np.flatnonzero(random).tolist(), choose(net, records[random], random[random], rng), strict=True):
                choices[i] = choice
        return choices

    return chooser


def _by_search(net: QNet, order: Order, starts: Sequence[State]) -> Chooser:
    """By tree search over the values of a network; what was found there goes with the choice."""
    agent = DQNAgent(net, order.discount, stops=False)
    searcher = SearchAgent(agent, order.search, Simulator(order.forfeit))
    rngs = [np.random.default_rng((*order.seed, 1, i)) for i in range(len(starts))]

    def chosen(root: Node[State], random: bool, rng: np.random.Generator) -> Choice | None:
        action = int(rng.integers(len(root.values))) if random and len(root.values) else decide(root, rng, order.search)
        searcher.keep(root, action, rng)
        if action is None:
            return None
        most = sorted(root.children, key=lambda each: -root.counts[each])[: order.search.budget]
        rows = [agent.row(root.state, int(root.ids[each])) for each in [action, *most]]
        found = root.values[most].astype(np.float32)
        return Choice(np.array(rows[0]), np.array(rows[1:], np.int32).reshape(-1, 4), found)

    def chooser(which: Sequence[int], states: Sequence[State], _: Records, random: Bools, __: np.random.Generator) -> list[Choice | None]:
        own = [rngs[i] for i in which]
        return [chosen(*each) for each in zip(searcher.search(states, own), random.tolist(), own, strict=True)]

    return chooser


def _play(
    layout: Layout,
    choice: Chooser,
    starts: Sequence[State],
    epsilon: float,
    lengths: Sequence[float],
    rng: np.random.Generator,
    forfeit: bool,
) -> list[Episode]:
    """Episodes from given beginnings to their ends, all side by side."""
    states = list(starts)
    steps: list[list[_Step]] = [[] for _ in states]
    running = list(range(len(states)))
    n = 0
    while running:
        now = [states[i] for i in running]
        records = observe(layout, [state.scene for state in now])
        left = np.array([max(lengths[i] - n, 1.0) for i in running])
        random = rng.random(len(running)) < epsilon / left
        on = []
        for record, chosen, i in zip(records, choice(running, now, records, random, rng), running, strict=True):
            if chosen is None:  # nothing can be placed: the episode is over, and what led here was its last step
                continue
            after = step(states[i], layout.decode(states[i].scene, chosen.action.tolist()), forfeit)
            steps[i].append(_Step(record, after.reward, chosen))
            states[i] = after.state
            if not after.state.ended:
                on.append(i)
        running = on
        n += 1
    return [_episode(layout, first, played) for first, played in zip(starts, steps, strict=True)]


def _episode(layout: Layout, first: State, steps: list[_Step]) -> Episode:
    rules = first.rules
    most = max((len(each.choice.found) for each in steps), default=0)
    tried, found = np.full((len(steps), most, 4), -1, np.int32), np.zeros((len(steps), most), np.float32)
    for k, each in enumerate(steps):
        tried[k, : len(each.choice.tried)], found[k, : len(each.choice.found)] = each.choice.tried, each.choice.found
    return Episode(
        records=np.array([each.record for each in steps], dtype=layout.dtype),
        actions=np.array([each.choice.action for each in steps], dtype=np.int32).reshape(-1, 4),
        rewards=np.array([each.reward for each in steps], dtype=np.float32),
        tried=tried,
        found=found,
        level=rules.levels.index(int(first.level)) if first.level in rules.levels else -1,
        best=rules.best(first.scene),
    )
