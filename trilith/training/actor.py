"""What an actor does, as one function: it takes a policy and a request, plays whole episodes side by side, and yields them.

Nothing of it outlives a request. So an actor can be this process, another one or another machine, can die and be replaced
at any time, and a run with no actor processes is the same run whenever it is interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from trilith.agents.base import Decision, Episode, Policy, Takeover
from trilith.builders.registry import plan_for
from trilith.evaluation.frozen import frozen
from trilith.evaluation.play import play, trajectories
from trilith.search.agent import SearchAgent, Valuer
from trilith.search.config import SearchConfig
from trilith.search.simulator import Simulator
from trilith.training.curriculum import Assessed
from trilith.world.episode import State, Step, start, step
from trilith.world.scene import Placement
from trilith.world.tasks import get_task
from trilith.world.trajectory import Trajectory


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
    takeover: Takeover = Takeover()
    """In which scenes the policy plays first, and is corrected."""


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
        episodes = [_demonstrate(policy, *each, request.forfeit) for each in _planned(policy, starts, request, rng)]
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
    kept: list[list[tuple[Decision, Step]]] = [[] for _ in states]
    running = list(range(len(states)))
    while running:
        decisions = policy.act([states[i] for i in running], [rngs[i] for i in running], request.exploration)
        going_on = []
        for i, decision in zip(running, decisions, strict=True):
            if decision.step is None:  # nothing can be placed: the episode is over, and what led here was its last step
                continue
            after = step(states[i], decision.placement, request.forfeit)
            kept[i].append((decision, after))
            states[i] = after.state
            if not after.state.ended:
                going_on.append(i)
        running = going_on
    return [_episode(policy, first, steps, request.exploration, False) for first, steps in zip(starts, kept, strict=True)]


def _planned(
    policy: Policy, starts: Sequence[State], request: DemonstrateRequest, rng: np.random.Generator
) -> Iterator[tuple[State, Sequence[Placement | None], float]]:
    """What to demonstrate: a state, the placements that are made from there, and what is to be earned more than by these.

    From the beginning, the planner's; in scenes that the policy plays first and could do better in, from any of its steps on, those of
    the planner or of a search over the policy's own values. States that only the policy gets into are where its choices count later,
    and a planner on its own never shows what to do there (Ross et al. 2011).
    """
    agent, (share, budget, by_search), forfeit = policy.agent, request.takeover, request.forfeit
    plan, searched = plan_for(starts[0].task), list[tuple[State, float]]()
    firsts = [k for k in range(len(starts)) if rng.random() < share]
    rngs = [np.random.default_rng((*request.seed, 1, k)) for k in range(len(starts))]
    played = dict(zip(firsts, trajectories(agent, [starts[k] for k in firsts], [rngs[k] for k in firsts], forfeit), strict=True))
    for k, first in enumerate(starts):
        if k not in played:
            yield first, plan(first), -np.inf
            continue
        end = played[k].states[-1]
        if end.ended == "complete" and end.total >= end.rules.best(end.scene) - 1e-6:  # nothing to correct
            continue
        on_its_way, earned = played[k].states[rng.integers(len(played[k].placements))], end.total
        if budget and rng.random() < by_search:
            searched.append((on_its_way, earned))
        else:
            yield on_its_way, plan(on_its_way), earned
    if searched and isinstance(agent, Valuer):
        searcher = SearchAgent(agent, SearchConfig(budget), Simulator(forfeit))
        better = play(searcher, [first for first, _ in searched], rngs[: len(searched)], forfeit)
        for (first, earned), (recording, _) in zip(searched, better, strict=True):
            yield first, recording.placements, earned


def _demonstrate(policy: Policy, first: State, placements: Sequence[Placement | None], least: float, forfeit: bool) -> Episode:
    """The episode of some placements, as the nearest actions of the policy.

    Empty if there are none, if they earn no more than `least`, or if the actions are not near enough and what is built breaks: the
    planner's own grid is the default one.
    """
    state, kept = first, []
    for placement in placements:
        if placement is None:  # whoever built it stopped
            break
        decision = policy.encode(state, placement)
        after = step(state, decision.placement, forfeit)
        kept.append((decision, after))
        state = after.state
        if state.ended:
            break
    good = state.ended in (None, "complete", "max_steps") and state.total > least
    return _episode(policy, first, kept if good else [], None, True)


def _episode(policy: Policy, first: State, kept: list[tuple[Decision, Step]], exploration: Any, demonstrated: bool) -> Episode:
    dtype = np.dtype([*policy.dtype.descr, ("reward", "f4")])
    steps = np.zeros(len(kept), dtype)
    for name in policy.dtype.names or ():
        for k, (decision, _) in enumerate(kept):
            assert decision.step is not None  # something was placed
            steps[name][k] = decision.step[name]
    rewards = tuple(after.reward for _, after in kept)
    steps["reward"] = rewards
    whole = None
    if policy.wants_states:
        whole = Trajectory((first, *(after.state for _, after in kept)), tuple(each.placement for each, _ in kept), rewards, ())
    rules = first.rules
    return Episode(steps, rules.levels.index(int(first.level)), rules.best(first.scene), demonstrated, exploration, whole)
