"""What a task is, the four tasks of the paper, and where a task is found by its name."""

from trilith.world.tasks.registry import TASKS, get_task
from trilith.world.tasks.task import Level, Task

__all__ = ["TASKS", "Level", "Task", "get_task"]
