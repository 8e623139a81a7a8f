"""Tasks by their names."""

from __future__ import annotations

from trilith.world.tasks.connecting import Connecting
from trilith.world.tasks.covering import Covering, CoveringHard
from trilith.world.tasks.silhouette import Silhouette
from trilith.world.tasks.task import Task

TASKS: dict[str, Task] = {task.name: task for task in (Silhouette(), Connecting(), Covering(), CoveringHard())}
"""The four tasks of the paper by their names."""


def get_task(name: str) -> Task:
    """The task of a name. Raises ValueError naming those there are."""
    if name not in TASKS:
        raise ValueError(f"there is no task {name!r}: choose {', '.join(TASKS)}")
    return TASKS[name]
