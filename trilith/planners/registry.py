"""Builders by the name of the task that they build in. A module that states a task can state builders for it as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from trilith.world.episode import State
from trilith.world.scene import Placement, Scene
from trilith.world.tasks import TASKS, get_task

Plan = Callable[[State], list[Placement]]
"""The placements of the best end found from a state. A pure function."""
Script = Callable[[Scene], Placement | None]
"""The next placement by rules of thumb; None where there is nothing more to gain. A pure function."""
B = TypeVar("B", Plan, Script)

_PLANS: dict[str, Plan] = {}
_SCRIPTS: dict[str, Script] = {}


def plans(task: str) -> Callable[[Plan], Plan]:
    """Makes the function below it what the agent `planner` does in a task."""

    def keep(plan: Plan) -> Plan:
        _PLANS[task] = plan
        return plan

    return keep


def scripts(task: str) -> Callable[[Script], Script]:
    """Makes the function below it what the agent `scripted` does in a task."""

    def keep(script: Script) -> Script:
        _SCRIPTS[task] = script
        return script

    return keep


def plan_for(task: str) -> Plan:
    """What plans in a task. Raises ValueError naming the tasks for which there is a planner."""
    return _find(task, _PLANS, "planner")


def script_for(task: str) -> Script:
    """What builds by a script in a task. Raises ValueError naming the tasks for which there is a script."""
    return _find(task, _SCRIPTS, "script")


def has_planner(task: str) -> bool:
    """Whether a task has a planner."""
    return _name(task, _PLANS) is not None


def _find(task: str, builders: dict[str, B], what: str) -> B:
    name = _name(task, builders)
    if name is None:
        raise ValueError(f"there is no {what} for {task}: there is one for {', '.join(builders)}")
    return builders[name]


def _name(task: str, builders: dict[str, B]) -> str | None:
    """The name that a task's builder was registered by: that of the task or, of my_module:MyTask, also the one its class states."""
    rules = get_task(task)  # which imports the module that may bring the builder
    stated = vars(type(rules)).get("name")
    return next((name for name in (rules.name, stated) if name in builders and (name == rules.name or name not in TASKS)), None)
