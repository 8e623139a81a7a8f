"""Registers a user's task and its Gymnasium id. This module does not import the environments, so it loads quickly."""

from __future__ import annotations

from typing import TypeVar

import gymnasium

from trilith.world.tasks import registry
from trilith.world.tasks.task import Task

T = TypeVar("T", bound=Task | type[Task])


def register(task: T) -> T:
    """Registers a task of your own, given as a class or an instance. In this process the task can then be selected by its `name`, and its
    environment by the id trilith/<Title>-v0.

    Returns its argument, so it works as a class decorator. Other processes, such as workers and actors, need no registration if they
    name the task my_module:MyTask. Raises ValueError if the argument is not a valid task, has the name of a task of the paper, or the
    title of another task.
    """
    made = registry.register(task)
    name = f"trilith/{made.title.replace(' ', '')}-v0"
    gymnasium.registry.pop(name, None)  # needed when a notebook cell runs again
    gymnasium.register(name, entry_point="trilith.envs.gymnasium:ConstructionEnv", kwargs={"task": made.name})
    return task
