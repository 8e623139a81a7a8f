"""Finds tasks by name: the tasks of the paper and the user's own."""

from __future__ import annotations

from copy import copy

from trilith.utils.checks import require, shortened
from trilith.utils.modules import imported, names_a_class
from trilith.world.tasks.connecting import Connecting
from trilith.world.tasks.covering import Covering, CoveringHard
from trilith.world.tasks.silhouette import Silhouette
from trilith.world.tasks.task import Task

TASKS: dict[str, Task] = {task.name: task for task in (Silhouette(), Connecting(), Covering(), CoveringHard())}
"""The four tasks of the paper by name. The ids of their Gymnasium environments are in `trilith/__init__.py`, checksums of their test scenes
in `evaluation/scenes.json`, which `trilith check-scenes --freeze` writes."""
_OWN: dict[str, Task] = {}
"""A user's tasks that this process knows, by the name under which they were registered or requested."""


def get_task(name: str) -> Task:
    """The task with this name. The name of a class of your own is my_module:MyTask. Raises ValueError, with the known names, if there is no
    such task."""
    task = (TASKS.get(name) or _OWN.get(name)) if isinstance(name, str) else None
    if task is None:
        require(
            isinstance(name, str) and names_a_class(name),
            f"there is no task {shortened(name)}: choose {', '.join(known_tasks())}, or one of your own as my_module:MyTask, "
            "which every process finds",
        )
        task = _OWN[name] = _checked(imported(name, "task"), name)
    return task


def register(given: Task | type[Task]) -> Task:
    """Registers a new instance of a user's task, given as a class or an instance, in this process by its `name`, and returns it. It
    replaces an earlier task of that name.

    Raises ValueError if `given` is not a valid task, has the name or title of a task of the paper, or the title of another registered task:
    the title is its environment's id.
    """
    made = _checked(given)
    require(made.name not in TASKS, f"the name {made.name!r} is that of a task of the paper: choose another name")
    others = [task.title for task in known_tasks().values() if task.name.isidentifier() and task.name != made.name]
    require(
        made.title.replace(" ", "") not in {title.replace(" ", "") for title in ("Construction", *others)},
        f"the title {made.title!r} of the task {made.name} is taken: choose another title",
    )
    _OWN[made.name] = made
    return made


def known_tasks() -> dict[str, Task]:
    """The tasks of the paper and the user's tasks that are already registered or imported, by name."""
    return TASKS | _OWN


def _checked(given: object, spec: str | None = None) -> Task:
    """Checks a user's task, a class or an instance, and returns a new instance. If `spec` (my_module:MyTask) is given, it becomes the name
    of the instance. Raises ValueError, with the reason, if the task is not valid."""
    label = spec or getattr(given, "__name__", type(given).__name__)
    if not isinstance(given, Task) and not (isinstance(given, type) and issubclass(given, Task)):
        raise ValueError(f"{label} is not a task: it must be a subclass of trilith.Task")
    try:
        task = copy(given) if isinstance(given, Task) else given()
    except TypeError as error:
        raise ValueError(f"the task {label} cannot be made: {error}") from None
    if spec is not None:
        task.name = spec  # so that states name the task in a form that every process can resolve
    task.title = getattr(task, "title", type(task).__name__)
    for field in ("name", "levels", "mix", "sticky_cost"):
        require(hasattr(task, field), f"the task {label} states no {field}")
    require(spec or task.name.isidentifier(), f"the name {task.name!r} of the task {label} must be made of letters, digits and _")
    require(
        task.levels and len(task.mix) == len(task.levels) and abs(sum(task.mix) - 1) <= 1e-9 and min(task.mix) >= 0,
        f"the mix {task.mix} of the task {label} must have a probability for each of the levels {task.levels}",
    )
    return task
