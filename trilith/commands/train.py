"""Training, and learning curves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import OmitArgPrefixes, Positional

from trilith.training.config import TrainConfig


@dataclass
class Train:
    """Train an agent. Ctrl-C saves; stopped or killed, the same command goes on, or --resume.

    Example: trilith train --task covering_hard --recipe fast --minutes 60 --out runs/x

    Example: trilith train --resume runs/x --minutes 90
    """

    config: OmitArgPrefixes[TrainConfig]
    resume: Path | None = None
    """Go on with the run of this folder; of the other options only --minutes, --steps and --actors count then."""

    def run(self) -> None:
        """Trains until it is time to stop."""
        try:
            from trilith.training.run import resume, train
        except ImportError as error:
            raise ValueError(f'training needs more packages ({error.name} is missing): pip install "trilith[learn]"') from None
        if self.resume is None:
            train(self.config)
        else:
            given = {name for name in ("minutes", "steps", "actors") if getattr(self.config, name) != getattr(TrainConfig(), name)}
            resume(self.resume, **{name: getattr(self.config, name) for name in given})


@dataclass
class Plot:
    """Draw the learning curves of runs.

    Example: trilith plot runs/x runs/y --out curves.png
    """

    runs: Positional[tuple[Path, ...]]
    """Folders of runs."""
    out: Path = Path("curves.png")
    """Where the picture goes."""
    across: Literal["minutes", "step", "actor_steps"] = "minutes"
    """What the horizontal axis counts."""

    def run(self) -> None:
        """Writes the picture."""
        from trilith.training.plot import plot

        plot(self.runs, self.out, self.across)
        print(self.out)
