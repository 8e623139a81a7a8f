"""Which levels are played when. A curriculum by performance has the same methods and uses what `report` tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from trilith.support.config import check_least


@dataclass(frozen=True)
class CurriculumConfig:
    """Which levels are played when."""

    steps: int = 10_000
    """Learner steps over which levels are raised from the first to the last."""
    hardest_share: float = 0.5
    """Share of episodes at the highest level reached, on top of the task's own mix of levels up to it."""

    def __post_init__(self) -> None:
        check_least(self, steps=0)
        if not 0 <= self.hardest_share <= 1:
            raise ValueError(f"hardest_share {self.hardest_share}: must be from 0 to 1")


class Curriculum(Protocol):
    """What the learner asks of a curriculum."""

    def levels(self, step: int) -> tuple[float, ...]:
        """Probability of each level at a learner step."""
        ...

    def report(self, level: int, reward: float, best: float) -> None:
        """An episode of a level was played, with this return of at most `best`."""
        ...

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, as JSON."""
        ...

    def load(self, state: dict[str, Any]) -> None:
        """Takes back what `state` gave."""
        ...


class Schedule:
    """Levels raised one by one, evenly over the first `steps` learner steps, as in the paper; a schedule needs no reports.

    Episodes come from the task's own mix of the levels reached so far, but a share of them from the highest of these.
    """

    def __init__(self, task: str, config: CurriculumConfig) -> None:
        from trilith.world.tasks import get_task  # options are shown without the engine

        self.mix = get_task(task).mix
        self.steps, self.hardest_share = config.steps, config.hardest_share

    def levels(self, step: int) -> tuple[float, ...]:
        count = len(self.mix)
        top = min(count * step // self.steps, count - 1) if self.steps else count - 1
        weights = np.where(np.arange(count) <= top, self.mix, 0.0)
        weights *= (1 - self.hardest_share) / weights.sum()
        weights[top] += self.hardest_share
        return tuple(float(w) for w in weights / weights.sum())

    def report(self, level: int, reward: float, best: float) -> None:
        pass

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: dict[str, Any]) -> None:
        pass
