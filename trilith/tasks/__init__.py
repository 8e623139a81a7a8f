"""The four construction tasks."""

from trilith.tasks.connecting import Connecting
from trilith.tasks.covering import Covering, CoveringHard
from trilith.tasks.silhouette import Silhouette
from trilith.tasks.task import Level, Task

TASKS: dict[str, Task] = {task.name: task for task in (Silhouette(), Connecting(), Covering(), CoveringHard())}
"""Every task by its name."""


def get_task(name: str) -> Task:
    """The task of a name. Raises ValueError naming those there are."""
    if name not in TASKS:
        raise ValueError(f"there is no task {name!r}: choose {', '.join(TASKS)}")
    return TASKS[name]


__all__ = ["TASKS", "Connecting", "Covering", "CoveringHard", "Level", "Silhouette", "Task", "get_task"]
