"""What an actor does, as one function: it takes a policy and a request, plays whole episodes side by side, and yields them.

Nothing of it outlives a request. So an actor can be this process, another one or another machine, can die and be replaced
at any time, and a run with no actor processes is the same run whenever it is interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from trilith.agents.base import Episode, Policy
from trilith.builders.registry import plan_for
from trilith.evaluation.frozen import frozen
from trilith.evaluation.play import play
from trilith.training.curriculum import Assessed
from trilith.world.episode import State, start, step
from trilith.world.tasks import get_task


class PlayRequest(NamedTuple):
    """Play new episodes, exploring."""

    seed: tuple[int, int]
    """Of all that is random in it: the seed of the run and the number of the request."""
    episodes: int
    levels: tuple[float, ...]
    """Probability of each level of the curriculum."""
    forfeit: bool
    """Whether touching an obstacle takes back all that was earned."""
    exploration: Any
    """What the learner tells the policy."""


class DemonstrateRequest(NamedTuple):
    """Let the planner build in new scenes."""

    seed: tuple[int, int]
    episodes: int
    levels: tuple[float, ...]
    forfeit: bool


class ValidateRequest(NamedTuple):
    """Play the first validation scenes of the hardest level and of all levels, without exploring."""

    step: int
    """Learner step that it was due at."""
    scenes: int
    """Of each."""
    forfeit: bool


class AssessRequest(NamedTuple):
    """Play new episodes without exploring, for a curriculum by performance."""

    seed: tuple[int, int]
    episodes: int
    levels: tuple[float, ...]
    forfeit: bool


Request = PlayRequest | DemonstrateRequest | ValidateRequest | AssessRequest


class Result(NamedTuple):
    """What came of a request."""

    request: Request
    episodes: list[Episode]
    """Empty for a validation or an assessment, whose episodes are not learnt from."""
    rewards: dict[str, float]
    """What a validation gave: the mean reward on "hardest" and "all" scenes."""
    assessed: tuple[Assessed, ...] = ()
    """What an assessment gave, by episode."""


def collect(policy: Policy, task: str, request: Request) -> Result:
    """Does what a request asks for. The same arguments always give the same result."""
    if isinstance(request, ValidateRequest):
        return Result(request, [], {level: _validate(policy, task, level, request) for level in ("hardest", "all")})
    rules, rng = get_task(task), np.random.default_rng(request.seed)
    levels = rng.choice(len(request.levels), size=request.episodes, p=request.levels)
    starts = [start(rules, rules.levels[level], rng) for level in levels]
    if isinstance(request, AssessRequest):
        return Result(request, [], {}, tuple(_assess(policy, starts, request)))
    if isinstance(request, DemonstrateRequest):
        episodes = [_demonstrate(policy, first, request.forfeit) for first in starts]
    else:
        episodes = _play(policy, starts, request)
    return Result(request, [episode for episode in episodes if len(episode.steps)], {})


def _validate(policy: Policy, task: str, level: str, request: ValidateRequest) -> float:
    states = valid_states(task, level, request.scenes)
    rngs = [np.random.default_rng((request.step, k)) for k in range(len(states))]
    return float(np.mean([end.total for _, end in play(policy.agent, states, rngs, request.forfeit)]))


def _assess(policy: Policy, starts: Sequence[State], request: AssessRequest) -> Iterator[Assessed]:
    rngs = [np.random.default_rng((*request.seed, 1, i)) for i in range(len(starts))]
    for first, (_, end) in zip(starts, play(policy.agent, starts, rngs, request.forfeit), strict=True):
        rules = first.rules
        group = ", ".join(f"{name} {value}" for name, value in rules.group(first.scene).items())
        yield Assessed(rules.levels.index(int(first.level)), group, end.total, rules.best(first.scene), end.steps)


@lru_cache(maxsize=4)
def valid_states(task: str, level: str, count: int) -> tuple[State, ...]:
    """The first scenes of a validation set."""
    return tuple(frozen(task, level, "valid", i) for i in range(count))


def _play(policy: Policy, starts: Sequence[State], request: PlayRequest) -> list[Episode]:
    """Episodes from given beginnings to their ends, all side by side."""
    states = list(starts)
    rngs = [np.random.default_rng((*request.seed, 1, i)) for i in range(len(states))]
    kept: list[list[tuple[np.void, float]]] = [[] for _ in states]
    running = list(range(len(states)))
    while running:
        decisions = policy.act([states[i] for i in running], [rngs[i] for i in running], request.exploration)
        going_on = []
        for i, decision in zip(running, decisions, strict=True):
            if decision.step is None:  # nothing can be placed: the episode is over, and what led here was its last step
                continue
            after = step(states[i], decision.placement, request.forfeit)
            kept[i].append((decision.step, after.reward))
            states[i] = after.state
            if not after.state.ended:
                going_on.append(i)
        running = going_on
    return [_episode(policy, first, steps, request.exploration, False) for first, steps in zip(starts, kept, strict=True)]


def _demonstrate(policy: Policy, first: State, forfeit: bool) -> Episode:
    """The episode that the planner builds, as the nearest actions of the policy.

    Empty if it would build nothing, or if these are not near enough and what it builds breaks: its own grid is the default one.
    """
    state, kept = first, []
    for placement in plan_for(first.task)(first):
        decision = policy.encode(state, placement)
        assert decision.step is not None  # somebody did place something
        after = step(state, decision.placement, forfeit)
        kept.append((decision.step, after.reward))
        state = after.state
        if state.ended:
            break
    good = state.ended in (None, "complete", "max_steps")
    return _episode(policy, first, kept if good else [], None, True)


def _episode(policy: Policy, first: State, kept: list[tuple[np.void, float]], exploration: Any, demonstrated: bool) -> Episode:
    dtype = np.dtype([*policy.dtype.descr, ("reward", "f4")])
    steps = np.zeros(len(kept), dtype)
    for name in policy.dtype.names or ():
        for k, (record, _) in enumerate(kept):
            steps[name][k] = record[name]
    steps["reward"] = [reward for _, reward in kept]
    rules = first.rules
    return Episode(steps, rules.levels.index(int(first.level)), rules.best(first.scene), demonstrated, exploration)
