"""Registering a task of one's own, with its Gymnasium id. Apart from the environment itself, so that it loads quickly."""

from __future__ import annotations

from typing import TypeVar

import gymnasium

from trilith.world.tasks import registry
from trilith.world.tasks.task import Task

T = TypeVar("T", bound=Task | type[Task])

ENTRY_POINT = "trilith.envs.gymnasium:ConstructionEnv"


def register(task: T) -> T:
    """Makes a task of your own, a class or an instance, known in this process by its `name`, and its environment as trilith/<Title>-v0.

    Returns what it was given, so that it can stand above a class as a decorator. In other processes, such as workers and actors,
    my_module:MyTask names it without being registered. Raises ValueError in one line if it is not a task or its name or title is taken.
    """
    made = registry.register(task)
    name = f"trilith/{made.title.replace(' ', '')}-v0"
    gymnasium.registry.pop(name, None)  # as when a cell of a notebook is run again
    gymnasium.register(name, entry_point=ENTRY_POINT, kwargs={"task": made.name})
    return task
