"""The command `compare`: two agents on the same scenes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from trilith.cli.evaluate import Evaluate, SceneOptions
from trilith.utils.checks import require
from trilith.utils.console import show, table_of


@dataclass(kw_only=True)
class Compare(SceneOptions):
    """Compare two agents scene by scene, on the same frozen scenes. After a stop or a kill, the same command resumes.

    Example: trilith compare objects planner --task covering_hard --scenes 200

    Example: trilith compare objects objects --task covering --scenes 100 --budgets 0 10
    """

    agents: Positional[Annotated[tuple[str, str], arg(metavar="AGENT AGENT")]]
    """Two agents. Each is a name, a run's folder, a file of weights or my_module:MyAgent, as in `trilith evaluate`."""
    scenes: int = 200
    """Number of scenes, counted from the first."""
    budgets: tuple[int, int] = (0, 0)
    """Simulations per decision, for each agent."""
    shown: int = 5
    """Number of scenes to draw: those in which the two agents differ most. 0 draws none."""
    out: Path = Path("compare.png")
    """File for the picture."""

    def run(self) -> None:
        """Evaluates the agents if results are missing, compares them, and draws."""
        from trilith.evaluation.compare import compare, draw_differences
        from trilith.utils.config import check_least
        from trilith.utils.files import check_png

        check_least(self, shown=0)
        check_png(self.out)
        named = [*zip(self.agents, self.budgets, strict=True)]
        labels = [f"{agent} ({budget} simulations)" if budget else agent for agent, budget in named]
        require(labels[0] != labels[1], f"{labels[0]} twice: name two agents, or give one two --budgets")
        common: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(SceneOptions)}
        each = [Evaluate(agent=agent, budget=str(budget), **common) for agent, budget in named]
        runs = [run for one in each for run in one.runs()]
        first, second = (one.measure(run)["rewards"] for one, run in zip(each, runs, strict=True))
        found = compare(first, second, self.shown)

        table = table_of(f"{self.task}, level {self.level}, {self.scenes} {self.split} scenes", *labels)
        interval = f" ± {found.interval:.3f}" if found.interval is not None else ""
        table.add_row("mean reward", *(f"{reward:.3f}" for reward in found.rewards))
        table.add_row("scenes with more than the other", *(f"{count} ({count / found.scenes:.0%})" for count in (found.won, found.lost)))
        for index in found.largest:
            table.add_row(f"  scene {index}", f"{first[index]:.2f}", f"{second[index]:.2f}")
        show(table)
        print(f"{labels[0]} earns {found.difference:+.3f}{interval} (95 % interval) compared with {labels[1]}, scene by scene.")
        if found.largest:
            draw_differences(labels, runs, found.largest, self.out)
            print(f"The largest differences: {self.out}")
