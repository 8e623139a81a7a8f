"""The agent `planner`: plans with the simulator, without learning. Each task has a planning function in the file named after the task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from trilith.planners.registry import plan_for
from trilith.world.episode import State, step
from trilith.world.scene import Placement, Role, Scene, fresh_scene

CACHED_PLANS = 256
"""Maximum number of cached plans."""


class Planner:
    """An agent that plans in the simulator before it makes a placement. A plan is a sequence of placements until nothing more can be
    gained.

    The search for a plan is in the file named after the task; this class follows the plans and caches them.

    The choice depends on the current state alone. The planner first plans the whole episode from its initial state, which is the current
    scene without the placed blocks. If the current state occurs in that plan, the choice is the next placement of the plan. In any other
    state, for instance one that a person has built, the planner makes a new plan from there. Plans are cached; this saves time and does not
    affect the choices.
    """

    def __init__(self) -> None:
        self._course = lru_cache(CACHED_PLANS)(course)

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """The next placement in each state. None means stop: nothing more can be gained. Raises ValueError if a task has no planner."""
        return [plan[0] if plan else None for plan in map(self.plan, states)]

    def plan(self, state: State) -> list[Placement]:
        """The placements that the planner would make from this state, until nothing more can be gained."""
        here = (state.scene, state.steps)
        planned = self._course(beginning(state))
        return planned[here] if here in planned else self._course(state)[here]


def course(state: State) -> dict[tuple[Scene, int], list[Placement]]:
    """Plans a sequence of placements from `state`, and simulates it. The result maps `state` and every state that follows, as (scene,
    number of steps), to the placements that remain."""
    todo = plan_for(state.task)(state)
    found = {(state.scene, state.steps): todo}
    for k, placement in enumerate(todo, start=1):
        state = step(state, placement).state
        found[state.scene, state.steps] = todo[k:]
    return found


def beginning(state: State) -> State:
    """The initial state of the episode that `state` belongs to."""
    table = np.column_stack([state.scene.pose[:, :2], state.scene.size])
    targets, obstacles = (table[state.scene.rows(role)].tolist() for role in (Role.TARGET, Role.OBSTACLE))
    return State(fresh_scene(targets, obstacles), state.task, state.level)
