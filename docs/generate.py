"""Writes the pages of the reference that follow from the code: tasks, commands, recipes and the public API.

`make docs` calls this before Sphinx reads the pages. What it writes is not kept in the repository.
"""

from __future__ import annotations

import contextlib
import io
import os
from dataclasses import fields
from inspect import cleandoc
from pathlib import Path

import trilith
from trilith.agents.algorithms import ALGORITHMS
from trilith.agents.registry import shipped
from trilith.agents.schema import ACTIONS
from trilith.agents.weights import read_card
from trilith.cli.main import COMMANDS, main
from trilith.evaluation.report import PAPER
from trilith.world.actions import make_codec
from trilith.world.observations.graph import EDGE_COLUMNS
from trilith.world.observations.objects import COLUMNS
from trilith.world.tasks import TASKS
from trilith.world.tasks.task import Task

ENDS = """\
| `reason` | when |
|---|---|
| `complete` | nothing is left to do |
| `max_steps` | the steps are over, or no block is left |
| `obstacle_hit` | a block touched an obstacle. What was earned is kept; with `zero_on_hit` the return is 0 |
| `spawn_collision` | the block would overlap something solid where it is placed |
| `invalid_edge` | the action names an object that a block cannot be placed on |
| `bad_choice` | the block is not available any more |
| `stopped` | the agent placed nothing |
| `bad_simulation` | the engine gave a pose that is not finite |"""


def write_pages(folder: Path) -> None:
    """Writes all generated pages below `folder`, docs/reference."""
    (folder / "tasks").mkdir(exist_ok=True)
    for task in TASKS.values():
        _write(folder / "tasks" / f"{task.name}.md", task_page(task))
    _write(folder / "commands.md", commands_page())
    _write(folder / "recipes.md", recipes_page())
    _write(folder / "api.md", api_page())


def task_page(task: Task) -> str:
    """The page of a task: its rules from its docstring, pictures, action spaces, observations and rewards."""
    summary, rules = cleandoc(task.__doc__ or "").split("\n\n", maxsplit=1)
    objects = task.objects_for("hardest")
    levels = ", ".join([*map(str, task.levels), *(f"`{name}`" for name in task.generalisation)])
    return "\n\n".join(
        [
            f"# {task.title}",
            f"*Reference.* {summary}",
            f"![An episode](../../images/{task.name}_built.gif)",
            "*The agent `objects`, which learned from its own play, in the first test scene of the hardest level,"
            " with at most ten simulations before each placement.*",
            f"![A failure](../../images/{task.name}_failure.gif)",
            "*The first test scene of the hardest level that `objects` does not complete without search"
            " (`python tools/pictures.py` draws the pictures of this page).*",
            rules,
            f"The task's name is `{task.name}`, its Gymnasium id `trilith/{task.title.replace(' ', '')}-v0`. Its levels: {levels}.",
            f"![Levels](../../images/{task.name}_levels.png)",
            f"## How an episode ends\n\n{ENDS}",
            f"## Action spaces\n\n{_actions(task, objects)}",
            f"## Observations\n\nA scene of the hardest level has at most {objects} objects. Each is a row of {len(COLUMNS)} numbers"
            f" in the observations `objects` and `graph`: {', '.join(COLUMNS)}. Each pair of objects in `graph` also has"
            f" {len(EDGE_COLUMNS)}: {', '.join(EDGE_COLUMNS)}. `image` is a picture of 64 × 64 pixels, `segments` one of each object."
            " `info` has the legal actions and the steps left.",
            f"## Rewards beside the paper's\n\n{_rewards(task)}",
        ]
    )


def _actions(task: Task, objects: int) -> str:
    heights, widths = task.grid
    rows = []
    for name, parts in ACTIONS.items():
        space = make_codec(name, heights=heights, widths=widths).space(objects)
        if space.whole:
            ranges = " × ".join(map(str, space.sizes))
        else:
            ranges = ", ".join(f"{low:g} to {high:g}" for low, high in zip(space.low, space.high, strict=True))
        rows.append(f"| `{name}` | {', '.join(parts)} | {ranges} |")
    return "\n".join(["| name | parts of an action | sizes or ranges |", "|---|---|---|", *rows])


def _rewards(task: Task) -> str:
    card = read_card(shipped("objects")[task.name])
    figures = {(each["level"], each["budget"]): f"{each['reward']:.2f} ± {each['interval']:.2f}" for each in card["test"]}
    rows = []
    for budget in sorted({budget for _, budget in figures}):
        agent = f"`objects`, {budget} simulations" if budget else "`objects`"
        rows.append(f"| {agent} | {figures.get(('all', budget), '')} | {figures.get(('hardest', budget), '')} |")
    for name, rewards in PAPER.items():
        if task.name in rewards:
            rows.append(f"| *{name}* | " + " | ".join("" if each is None else f"{each:.2f}" for each in rewards[task.name]) + " |")
    measured = f"Measured by `trilith evaluate objects --task {task.name}`; ± is a 95 % interval over scenes."
    budget = " 4.61 is with a budget of 10." if task.name == "covering_hard" else ""
    note = f"{measured} The paper's figures are of its own simulator.{budget} [The agents](../agents.md) has seeds and costs."
    return "\n".join(["| mean reward | all levels | hardest |", "|---|--:|--:|", *rows, "", note])


def commands_page() -> str:
    """The page of the command line, from the help texts of the parser."""
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}  # the same page on every screen
    parts = ["# Commands", "*Reference.* What `trilith COMMAND --help-all` says. `trilith --help` lists the commands."]
    for name in COMMANDS:
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            main([name, "--help-all"])
        parts.append(f"## trilith {name}\n\n```text\n{text.getvalue().strip()}\n```")
    return "\n\n".join(parts)


def recipes_page() -> str:
    """The page of recipes: every setting of each."""
    parts = ["# Recipes", "*Reference.* What `trilith train --recipe NAME` can be. A name without `-vN` is the newest version."]
    for algorithm in ALGORITHMS.values():
        for recipe in algorithm.recipes:
            settings = ", ".join(
                f"`{field.name}` {getattr(recipe.config, field.name)}" for field in fields(recipe.config) if field.name != "model"
            )
            parts.append(f"## {recipe.exact}\n\nAlgorithm `{algorithm.name}`. {recipe.about}.\n\n{settings}")
    return "\n\n".join(parts)


def api_page() -> str:
    """The page of the public API, for autodoc."""
    functions = [name for name in trilith.__all__ if name[0].islower()]
    classes = [name for name in trilith.__all__ if name[0].isupper()]
    parts = ["# Python API", "*Reference.* `trilith.__all__` is the public interface; everything else may change.", "## Functions"]
    parts += [f"```{{eval-rst}}\n.. autofunction:: trilith.{name}\n```" for name in functions]
    parts.append("## Classes")
    parts += [f"```{{eval-rst}}\n.. autoclass:: trilith.{name}\n   :members:\n```" for name in classes]
    return "\n\n".join(parts)


def _write(path: Path, text: str) -> None:
    path.write_text(text + "\n", encoding="utf-8")
