"""The work of an actor is one function, `collect`. It takes a policy and a request, plays whole episodes in one batch, and returns them.

An actor keeps no state between requests. So it can run in this process, in another process or on another machine, and it can be replaced at
any time. A run without actor processes gives the same result even if it is interrupted and resumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from trilith.agents.base import Decision, Episode, Foresees, Policy, Searches
from trilith.evaluation.play import play, trajectories
from trilith.evaluation.scene_sets import start_in_set
from trilith.evaluation.schema import Count
from trilith.planners.registry import plan_for
from trilith.training.curriculum import Assessed
from trilith.world.episode import State, Step, start, step
from trilith.world.scene import Placement
from trilith.world.tasks import get_task
from trilith.world.trajectory import Trajectory


@dataclass(frozen=True)
class _NewEpisodes:
    """Base of requests that play new episodes."""

    seed: tuple[int, int]
    """Seed of everything random in the request: the seed of the run and the number of the request."""
    episodes: int
    levels: tuple[float, ...]
    """Probability of each level of the curriculum, from the first level to the last."""
    zero_on_hit: bool
    """Whether the return of an episode becomes 0 if a block touches an obstacle."""


@dataclass(frozen=True)
class PlayRequest(_NewEpisodes):
    """A request to play new episodes with exploration. The learner learns from them."""

    exploration: Any
    """The exploration settings of the policy: the result of `Learner.exploration`."""


class CorrectRequest(_NewEpisodes):
    """A request for corrections: play new episodes without exploration, then let the planner continue each episode from one of the states
    in it."""


class AssessRequest(_NewEpisodes):
    """A request to play new episodes without exploration. A curriculum by performance judges the agent by them. The learner does not learn
    from them."""


@dataclass(frozen=True)
class ValidateRequest:
    """A request for a validation: play the first validation scenes of the levels "hardest" and "all", without exploration. If the policy is
    a `Searches`, its `searching_agent` plays."""

    step: int
    """Learner step at which the validation was due."""
    scenes: int
    """Number of scenes of each of the two levels."""
    zero_on_hit: bool


Request = PlayRequest | CorrectRequest | ValidateRequest | AssessRequest


@dataclass(frozen=True)
class Simulated:
    """Number of simulator steps that the agent learned from, by purpose."""

    made: Count = 0
    """Steps of episodes played with exploration."""
    counterfactual: Count = 0
    """Simulated counterfactual actions. They do not count in `made`."""
    corrections: Count = 0
    """Steps of corrections, and steps of the policy's own episodes that were played to make corrections. Simulations inside the planner are
    not counted."""

    def plus(self, other: Simulated) -> Simulated:
        """Adds the counts of `other`, purpose by purpose."""
        return Simulated(self.made + other.made, self.counterfactual + other.counterfactual, self.corrections + other.corrections)

    @property
    def total(self) -> int:
        """The sum of the three counts."""
        return self.made + self.counterfactual + self.corrections


class Result(NamedTuple):
    """The answer to a request."""

    request: Request
    episodes: list[Episode]
    """The episodes to learn from. Empty for a validation or an assessment."""
    rewards: dict[str, float]
    """For a validation: maps "hardest" and "all" to the mean reward on these scenes. Empty for other requests."""
    assessed: tuple[Assessed, ...] = ()
    """For an assessment: the result of each episode."""
    simulated: Simulated = Simulated()
    """The simulator steps of the request that the agent learns from, by purpose. All 0 for a validation or an assessment."""
    cpu_seconds: float = 0.0
    """Processor time of the request in an actor process. 0 if the request was played in the process of the run, which measures its own
    time."""


def collect(policy: Policy, task: str, request: Request) -> Result:
    """Plays the episodes of a request with a policy, and returns the result. The same arguments always give the same result."""
    if isinstance(request, ValidateRequest):
        return Result(request, [], {level: _validate(policy, task, level, request) for level in ("hardest", "all")})
    rules, rng = get_task(task), np.random.default_rng(request.seed)
    levels = rng.choice(len(request.levels), size=request.episodes, p=request.levels)
    starts = [start(rules, rules.levels[level], rng) for level in levels]
    if isinstance(request, AssessRequest):
        return Result(request, [], {}, tuple(_assess(policy, starts, request)))
    episodes, simulated = _correct(policy, starts, request, rng) if isinstance(request, CorrectRequest) else _play(policy, starts, request)
    return Result(request, [episode for episode in episodes if len(episode.steps)], {}, simulated=simulated)


def _validate(policy: Policy, task: str, level: str, request: ValidateRequest) -> float:
    states = valid_states(task, level, request.scenes)
    rngs = [np.random.default_rng((request.step, k)) for k in range(len(states))]
    agent = policy.searching_agent if isinstance(policy, Searches) else policy.agent
    return float(np.mean([end.total for _, end in play(agent, states, rngs, request.zero_on_hit)]))


def _assess(policy: Policy, starts: Sequence[State], request: AssessRequest) -> Iterator[Assessed]:
    rngs = [np.random.default_rng((*request.seed, 1, i)) for i in range(len(starts))]
    for first, (_, end) in zip(starts, play(policy.agent, starts, rngs, request.zero_on_hit), strict=True):
        rules = first.rules
        group = ", ".join(f"{name} {value}" for name, value in rules.group(first.scene).items())
        yield Assessed(rules.levels.index(int(first.level)), group, end.total, rules.best(first.scene), end.steps)


@lru_cache(maxsize=4)
def valid_states(task: str, level: str, count: int) -> tuple[State, ...]:
    """The initial states in the first `count` scenes of a validation set. They are cached, because every validation plays the same
    scenes."""
    return tuple(start_in_set(task, level, "valid", i) for i in range(count))


def _play(policy: Policy, starts: Sequence[State], request: PlayRequest) -> tuple[list[Episode], Simulated]:
    """Plays episodes from the states `starts` to their ends, all in one batch. Returns the episodes, and the number of simulator steps."""
    states = list(starts)
    rngs = [np.random.default_rng((*request.seed, 1, i)) for i in range(len(states))]
    kept: list[list[tuple[Decision, Step]]] = [[] for _ in states]
    running, beside = list(range(len(states))), 0
    while running:
        decided = policy.act([states[i] for i in running], [rngs[i] for i in running], request.exploration)
        # If nothing can be placed, the episode is over, and the previous step was its last.
        going_on = [(i, decision) for i, decision in zip(running, decided, strict=True) if decision.step is not None]
        running, decisions = [i for i, _ in going_on], [decision for _, decision in going_on]
        options = [(decision.placement, *decision.beside) for decision in decisions]
        outcomes = [[step(states[i], each, request.zero_on_hit) for each in some] for i, some in zip(running, options, strict=True)]
        made = [0] * len(running)
        if isinstance(policy, Foresees):
            made = policy.foresee(decisions, outcomes, [rngs[i] for i in running], request.exploration)
        for i, decision, k, placements, after in zip(running, decisions, made, options, outcomes, strict=True):
            kept[i].append((decision._replace(placement=placements[k]), after[k]))
            states[i] = after[k].state
            beside += len(decision.beside)
        running = [i for i in running if not states[i].ended]
    episodes = [_episode(policy, first, steps, request.exploration, False) for first, steps in zip(starts, kept, strict=True)]
    return episodes, Simulated(sum(len(steps) for steps in kept), beside)


def _correct(policy: Policy, starts: Sequence[State], request: CorrectRequest, rng: np.random.Generator) -> tuple[list[Episode], Simulated]:
    """Makes corrections: the policy plays an episode from each of the states `starts`, and the planner continues this episode from one of
    its states, drawn at random by `rng`. So the policy learns in states that it visits itself (DAgger, Ross et al. 2011). Returns the
    corrections, and the number of simulator steps.

    There is no correction for an episode that no other episode could beat. A correction that does not earn more than the policy's own
    episode is returned without steps.
    """
    rngs = [np.random.default_rng((*request.seed, 1, k)) for k in range(len(starts))]
    episodes, count = [], 0
    for played in trajectories(policy.agent, starts, rngs, request.zero_on_hit):
        count += len(played.placements)
        if not len(played.placements) or _flawless(played):
            continue
        first = played.states[rng.integers(len(played.placements))]
        shown = _shown(policy, first, tuple(plan_for(first.task)(first)), request.zero_on_hit)
        count += len(shown)
        # Each placement of the planner was replaced by the nearest action of the policy. If this is too far off, the structure falls. By
        # default planner and policy use the same actions.
        end = shown[-1][1].state if shown else first
        good = end.ended in (None, "complete", "max_steps") and end.total > played.states[-1].total
        episodes.append(_episode(policy, first, shown if good else [], None, True))
    return episodes, Simulated(corrections=count)


def _flawless(trajectory: Trajectory) -> bool:
    """Whether an episode was completed without any cost for glue. Then no other episode can earn more."""
    end = trajectory.states[-1]
    return end.ended == "complete" and end.rules.sticky_cost * float(end.scene.sticky.sum()) == 0


def _shown(policy: Policy, first: State, placements: Sequence[Placement | None], zero_on_hit: bool) -> list[tuple[Decision, Step]]:
    """Plays the planner's `placements` from the state `first`, each replaced by the nearest action of the policy. Ends when the planner
    stops or the episode ends. Returns (decision, outcome) for each step."""
    state, shown = first, []
    for placement in placements:
        if placement is None:  # the planner stopped
            break
        decision = policy.encode(state, placement)
        after = step(state, decision.placement, zero_on_hit)
        shown.append((decision, after))
        state = after.state
        if state.ended:
            break
    return shown


def _episode(policy: Policy, first: State, kept: list[tuple[Decision, Step]], exploration: Any, correction: bool) -> Episode:
    dtype = np.dtype([*policy.dtype.descr, ("reward", "f4")])
    steps = np.zeros(len(kept), dtype)
    for name in policy.dtype.names or ():
        for k, (decision, _) in enumerate(kept):
            assert decision.step is not None  # because a block was placed
            steps[name][k] = decision.step[name]
    rewards = tuple(after.reward for _, after in kept)
    steps["reward"] = rewards
    whole = None
    if policy.wants_states:
        whole = Trajectory((first, *(after.state for _, after in kept)), tuple(each.placement for each, _ in kept), rewards, ())
    ended = bool(kept) and kept[-1][1].state.ended is not None
    return Episode(steps, first.rules.levels.index(int(first.level)), correction, exploration, whole, ended)
