"""The commands `tasks`, `agents` and `recipes`, which print lists, and `check-scenes`, which checks the frozen scenes."""

from __future__ import annotations

from dataclasses import dataclass

from trilith.utils.console import show, table_of

SCENES = 1000
"""Number of test scenes over which the highest possible reward is averaged."""


@dataclass
class Tasks:
    """List the tasks, their levels, the highest possible rewards and the number of actions in each action space.

    Example: trilith tasks
    """

    def run(self) -> None:
        """Prints a table."""
        import numpy as np

        from trilith.evaluation.scene_sets import start_in_set
        from trilith.world.actions import make_codec
        from trilith.world.tasks import TASKS

        spaces = {"absolute grid": "discrete_absolute", "relative": "discrete_relative", "relative (x, y)": "discrete_relative_xy"}
        columns = ("task", "levels", "and, to generalise", "most to earn\nall", "\nhardest", "sticky\nblock", "objects")
        table = table_of(*columns, *(f"actions\n{space}" for space in spaces))
        for task in TASKS.values():
            most = [
                float(np.mean([task.best(start_in_set(task.name, level, "test", index).scene) for index in range(SCENES)]))
                for level in ("all", "hardest")
            ]
            objects = task.objects_for("hardest")
            heights, widths = task.grid
            sizes = [make_codec(name, heights=heights, widths=widths).space(objects).sizes for name in spaces.values()]
            table.add_row(
                task.name,
                f"{task.levels[0]} to {task.levels[-1]}",
                "\n".join(task.generalisation) or "–",
                *(f"{each:.2f}" for each in most),
                f"costs {task.sticky_cost:g}" if task.sticky_cost else "free",
                f"≤ {objects}",
                *(f"{int(np.prod(size)):,}" for size in sizes),
            )
        show(table)
        print(f"Most to earn: the mean over the first {SCENES:,} test scenes, glue not counted.")
        print("Objects and actions are counted for the hardest level at the end of its longest episode; most actions are not legal.")
        print("The continuous action spaces have 4 numbers (absolute) and 5 (relative).")
        print("A task of your own, a class in a module of this folder, is named my_module:MyTask in every command.")


@dataclass
class Agents:
    """List the agents that come with the package. Trained agents are listed with their training cost and their rewards.

    Example: trilith agents
    """

    def run(self) -> None:
        """Prints a table."""
        from trilith.agents.registry import AGENTS, ZOO, shipped
        from trilith.agents.weights import read_card

        print(f"Without training: {', '.join(AGENTS)}")
        costly, earned = ("recipe", "minutes", "processes", "physics"), ("search", "scenes", "all", "hardest", "solved")
        table = table_of("trained", "task", *costly, *earned)
        for folder in sorted(path.name for path in ZOO.glob("*")):
            for task, weights in shipped(folder).items():
                card = read_card(weights)
                figures = {(each["level"], each["budget"]): each for each in card["test"]}
                for budget in sorted({budget for level, budget in figures if level == "hardest"}):
                    every, hardest = figures.get(("all", budget)), figures["hardest", budget]
                    cost = card["cost"]
                    minutes = f"{cost.get('core_minutes', cost['minutes']):.0f}"
                    costs = (card["recipe"], minutes, str(cost["processes"]), str(card["physics"]))
                    rewards = (
                        f"{every['reward']:.2f}" if every else "",
                        f"{hardest['reward']:.2f} ± {hardest['interval']:.2f}",
                        f"{hardest['solved']:.0%}",
                    )
                    search = f"{budget}, {hardest['algorithm']}" if "algorithm" in hardest else str(budget or "–")
                    table.add_row(folder, task, *costs, search, str(hardest["scenes"]), *rewards)
        show(table)
        print("Minutes of training: processor time of all processes; by the clock for pixels.")
        print("Mean reward over so many test scenes, and share of the hardest fully solved; search: simulations before each placement.")
        print("Physics: the world it was trained and measured in. Figures of all agents are in docs/reference/results.md.")


@dataclass
class Recipes:
    """List the recipes of `trilith train`.

    Example: trilith recipes
    """

    def run(self) -> None:
        """Prints a table."""
        from trilith.agents.algorithms import ALGORITHMS

        table = table_of("recipe", "algorithm", "what it is")
        table.columns[1].justify = table.columns[2].justify = "left"
        for algorithm in ALGORITHMS.values():
            for recipe in algorithm.recipes:
                table.add_row(recipe.exact, algorithm.name, recipe.about)
        show(table)
        print("`trilith train --recipe NAME --help-all` shows the options of one. Without -vN it is the newest; yours is my_module:name.")


@dataclass
class CheckScenes:
    """Check that all frozen scenes are unchanged.

    Example: trilith check-scenes
    """

    freeze: bool = False
    """Write the checksums of a new version of the scenes (raise scene_sets.VERSION first)."""

    def run(self) -> None:
        """Prints a line per set. Raises ValueError if a set has changed. With `freeze`, writes new checksums instead of checking the old
        ones."""
        from trilith.evaluation import scene_sets

        if self.freeze:
            for name in scene_sets.freeze():
                print(f"{name} frozen")
            return
        changed = []
        for name, same in scene_sets.check():
            print(f"{name} {'ok' if same else 'CHANGED'}")
            changed += [] if same else [name]
        if changed:
            advice = "raise scene_sets.VERSION and run trilith check-scenes --freeze"
            raise ValueError(f"{len(changed)} sets changed, the first {changed[0]}: {advice}")
