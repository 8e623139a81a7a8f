"""The command `compare`: two agents on the same scenes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import fmean
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
    """Two agents. Each is a name, the folder of a run or of several seeds, a file of weights or my_module:MyAgent, as in `trilith
    evaluate`. With several seeds, the interval of the difference is over seeds."""
    scenes: int = 200
    """Number of scenes, counted from the first."""
    budgets: tuple[int, int] = (0, 0)
    """Simulations per decision, for each agent."""
    shown: int = 5
    """Number of scenes to draw: those in which the two agents differ most. 0 draws none."""
    out: Path = Path("compare.png")
    """PNG file for the picture."""

    def run(self) -> None:
        """Evaluates the agents if results are missing, prints the comparison, and draws the scenes in which the agents differ most. If an
        agent has several seeds, no scenes are drawn."""
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
        runs = [one.runs() for one in each]  # all are checked before the first one is measured
        rewards = [[one.measure(run)["rewards"] for run in seeds] for one, seeds in zip(each, runs, strict=True)]
        title = f"{self.task}, level {self.level}, {self.scenes} {self.split} scenes"
        if max(map(len, rewards)) > 1:
            _compare_seeds(title, labels, [[fmean(seed) for seed in seeds] for seeds in rewards])
            return
        [first], [second] = rewards
        found = compare(first, second, self.shown)

        table = table_of(title, *labels)
        interval = f" ± {found.interval:.3f}" if found.interval is not None else ""
        table.add_row("mean reward", *(f"{reward:.3f}" for reward in found.rewards))
        table.add_row("scenes with more than the other", *(f"{count} ({count / found.scenes:.0%})" for count in (found.won, found.lost)))
        for index in found.largest:
            table.add_row(f"  scene {index}", f"{first[index]:.2f}", f"{second[index]:.2f}")
        show(table)
        print(f"{labels[0]} earns {found.difference:+.3f}{interval} (95 % interval over scenes) compared with {labels[1]}, scene by scene.")
        if found.largest:
            draw_differences(labels, [run for [run] in runs], found.largest, self.out)
            print(f"The largest differences: {self.out}")


def _compare_seeds(title: str, labels: Sequence[str], means: Sequence[Sequence[float]]) -> None:
    """Prints the comparison of two agents, of which at least one has several seeds. `means` has one list per agent, with the mean reward of
    each seed. If an agent has only one seed, its mean reward is taken as exact."""
    from trilith.evaluation.statistics import difference_of_seeds, mean_over_seeds, probability_of_improvement, spread_of_seeds

    table = table_of(title, *labels)
    table.add_row("seeds", *(str(len(seeds)) for seeds in means))
    spreads = [spread_of_seeds(seeds) for seeds in means]
    table.add_row("median seed (lowest to highest)", *(f"{each.median:.3f} ({each.low:.3f} to {each.high:.3f})" for each in spreads))
    first, second = means
    if min(len(first), len(second)) > 1:
        found = difference_of_seeds(first, second)
    else:
        found = mean_over_seeds([x - y for x in first for y in second])
    better = probability_of_improvement([first], [second])
    table.add_row("probability that a seed earns more", f"{better:.0%}", f"{1 - better:.0%}")
    show(table)
    half = found.high - found.value
    print(f"{labels[0]} earns {found.value:+.3f} ± {half:.3f} (95 % interval over seeds) compared with {labels[1]}.")
