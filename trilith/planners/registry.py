"""Scripts and planners by the name of their task. A module that defines a task can also register a script and a planner for this task."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from trilith.world.episode import State
from trilith.world.scene import Placement, Scene
from trilith.world.tasks import TASKS, get_task

Plan = Callable[[State], list[Placement]]
"""Type of a planner: a pure function that returns the placements of the best plan found from a state."""
Script = Callable[[Scene], Placement | None]
"""Type of a script: a pure function that returns the next placement by rules of thumb, or None if nothing more can be gained."""
B = TypeVar("B", Plan, Script)

_PLANS: dict[str, Plan] = {}
_SCRIPTS: dict[str, Script] = {}


def plans(task: str) -> Callable[[Plan], Plan]:
    """Decorator: registers a function as the planner of a task."""
    return partial(_register, _PLANS, task)


def scripts(task: str) -> Callable[[Script], Script]:
    """Decorator: registers a function as the script of a task."""
    return partial(_register, _SCRIPTS, task)


def plan_for(task: str) -> Plan:
    """The planner of a task. If there is none, raises ValueError with the tasks that have a planner."""
    return _find(task, _PLANS, "planner")


def script_for(task: str) -> Script:
    """The script of a task. If there is none, raises ValueError with the tasks that have a script."""
    return _find(task, _SCRIPTS, "script")


def has_planner(task: str) -> bool:
    """Whether a task has a planner."""
    return _name(task, _PLANS) is not None


def _register(builders: dict[str, B], task: str, builder: B) -> B:
    builders[task] = builder
    return builder


def _find(task: str, builders: dict[str, B], what: str) -> B:
    name = _name(task, builders)
    if name is None:
        raise ValueError(f"there is no {what} for {task}: there is one for {', '.join(builders)}")
    return builders[name]


def _name(task: str, builders: dict[str, B]) -> str | None:
    """The name by which a task has an entry in `builders`, or None if it has none. It is the task's name or, for a task of your own
    (my_module:MyTask), the `name` that its class states."""
    rules = get_task(task)  # imports the module, which may register the builder
    stated = vars(type(rules)).get("name")
    return next((name for name in (rules.name, stated) if name in builders and (name == rules.name or name not in TASKS)), None)
