"""The agent `planner`: a search with the simulator, without learning. It follows the plans from the file named for each task."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from trilith.planners.registry import plan_for
from trilith.world.episode import State, step
from trilith.world.scene import Placement, Role, fresh_scene

CACHED_PLANS = 256
"""Maximum number of cached plans."""


class Planner:
    """Tries placements in the simulator before it commits to one.

    Its choice depends on the state alone. It plans an episode as a whole from the beginning. Every state still shows the beginning: it
    is the scene without blocks. In a state of that plan, it makes the plan's next placement. In any other state, for instance one that
    a person has built, it makes a new plan. Caching plans changes no choice.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[bytes, str, str, int, float], dict[tuple[bytes, int], list[Placement]]] = OrderedDict()

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """The next placement of the plan in each state; None (stop) where there is nothing more to gain."""
        plans = [self.plan(state) for state in states]
        return [plan[0] if plan else None for plan in plans]

    def plan(self, state: State) -> list[Placement]:
        """The placements that the planner would make from here, up to where nothing more can be gained."""
        here = (state.scene.tobytes(), state.steps)
        course = self._course(beginning(state))
        return course[here] if here in course else self._course(state)[here]

    def _course(self, state: State) -> dict[tuple[bytes, int], list[Placement]]:
        """The remaining placements in each state along the plan from `state`."""
        key = (state.scene.tobytes(), state.task, str(state.level), state.steps, state.total)
        if key not in self._kept:
            todo = plan_for(state.task)(state)
            course = {(state.scene.tobytes(), state.steps): todo}
            for k, placement in enumerate(todo, start=1):
                state = step(state, placement).state
                course[state.scene.tobytes(), state.steps] = todo[k:]
            self._kept[key] = course
            if len(self._kept) > CACHED_PLANS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


def beginning(state: State) -> State:
    """The state in which the episode of `state` began."""
    table = np.column_stack([state.scene.pose[:, :2], state.scene.size])
    targets, obstacles = (table[state.scene.rows(role)].tolist() for role in (Role.TARGET, Role.OBSTACLE))
    return State(fresh_scene(targets, obstacles), state.task, state.level)
