"""The definition of a task, the four tasks of the paper, and the registry of tasks by name."""

from trilith.world.tasks.registry import TASKS, get_task, known_tasks, register
from trilith.world.tasks.task import Level, Progress, Task

__all__ = ["TASKS", "Level", "Progress", "Task", "get_task", "known_tasks", "register"]
