"""The commands `train`, whose options are the fields of `training.config.TrainConfig`, and `plot` for learning curves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar

from tyro.conf import Positional, arg

from trilith.training.config import TrainConfig
from trilith.utils.checks import require

C = TypeVar("C")


@dataclass
class Train(Generic[C]):
    """Train an agent. Ctrl-C saves the run. After a stop or a kill, the same command resumes it, as does --resume. --help-all shows all
    options.

    Example: trilith train --task covering_hard --recipe objects --minutes 60 --out runs/x

    Example: trilith train --resume runs/x --minutes 90
    """

    config: Annotated[TrainConfig[C], arg(name="")]
    resume: Path | None = None
    """Resume the run in this folder. Options that are not given keep their values. Only the following may change: --minutes,
    --core-minutes, --steps, --actors, --checkpoint-seconds, --log-seconds, --track and the options for a cluster."""

    def run(self) -> None:
        """Trains until a limit is reached, and prints the last evaluation."""
        from trilith.agents.weights import learning, missing

        require(learning(), missing("training"))
        from trilith.training.run import resume, train

        if self.resume is None:
            train(self.config)
        else:
            require(self.config.out == self.resume, f"--out {self.config.out} is not the folder to resume, {self.resume}: leave it out")
            resume(self.config)


@dataclass
class Plot:
    """Draw the learning curves of runs.

    Example: trilith plot runs/x runs/y --out curves.png
    """

    runs: Positional[tuple[Path, ...]]
    """Folders of runs. A folder with several seeds of a run is drawn as one curve."""
    out: Path = Path("curves.png")
    """PNG file for the picture."""
    across: Literal["minutes", "core_minutes", "step", "actor_steps", "simulator_steps"] = "core_minutes"
    """Unit of the horizontal axis."""

    def run(self) -> None:
        """Writes the picture."""
        from trilith.training.plot import plot

        plot(self.runs, self.out, self.across)
        print(self.out)
