"""The command `train-model`, which trains a transition model on recorded episodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from trilith.agents.dynamics.config import ModelRunConfig
from trilith.utils.checks import require
from trilith.utils.console import show, table_of

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class TrainModel(ModelRunConfig):
    """Train a transition model on recorded episodes. A search can use it instead of the simulator. Ctrl-C saves. After a stop or a kill,
    the same command resumes.

    Example: trilith train-model data/covering_hard data/silhouette --out models/x --agent objects
    """

    data: Positional[Annotated[tuple[Path, ...], arg(metavar="FOLDER [FOLDER ...]")]]
    """Folders that `trilith record-episodes` wrote."""

    def run(self) -> None:
        """Trains until all steps are made, validates, and prints the validation."""
        from trilith.agents.weights import learning, missing

        require(learning(), missing("training a model"))
        from trilith.training.dynamics import train_model

        found = train_model(self)
        show(_table("recorded placements", found["recorded"], found["nudge"]))
        if "first" in found:
            show(_table(f"the best eight placements of {self.agent}", found["first"], {}))
        print(self.out)


def _table(title: str, tasks: dict[str, Any], nudge: dict[str, float | None]) -> Table:
    table = table_of(
        title, "steps", "placements", "end: Brier", "constant", "reward left: scored", "learned", "pose (m)", "only falls", "1 mm nudge",
        "contacts wrong", "overlap",
    )  # fmt: skip
    table.columns[0].no_wrap = True
    for task, levels in tasks.items():
        for level, depths in levels.items():
            for depth, each in depths.items():
                if level == "all" or depth == "1":
                    table.add_row(
                        f"{task}, {level}", depth, str(each["placements"]), _number(each, "brier"), _number(each, "brier_constant"),
                        f"{each['reward_scored']:.1%}", f"{each['reward_learned']:.1%}", _number(each, "pose"), _number(each, "pose_base"),
                        f"{nudge[task]:.3f}" if level == "all" and depth == "1" and nudge.get(task) is not None else "",
                        f"{each['contacts']:.2f}", f"{each['overlaps']:.1%}",
                    )  # fmt: skip
    return table


def _number(figures: dict[str, Any], name: str) -> str:
    return f"{figures[name]:.3f}" if name in figures else ""
