"""The curriculum decides which levels are played when. Higher levels are reached by a schedule, or by the agent's performance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, get_args

import numpy as np
from msgspec import Meta

from trilith.utils.checks import require
from trilith.utils.config import check_least
from trilith.utils.files import typed

Kind = Literal["schedule", "performance"]
WINDOW = 200
"""A group of scenes (`Task.group`) is judged by its last `WINDOW` episodes, as in the paper. A level is judged only after this many
episodes of the level; the paper has no such rule."""
LEAST = 20
"""A group of scenes (`Task.group`) with at least this many episodes is judged on its own. The paper has no such rule."""
SHARE = 5
"""The evaluator plays the extra episodes that judge the agent. It makes at most one environment step for this many steps of the actors. The
paper has no such rule."""
RARE = "rare"
"""Name of the pool of all groups of a level that have too few episodes to be judged on their own."""


@dataclass(frozen=True)
class CurriculumConfig:
    """Options of the curriculum: which levels are played when."""

    steps: int = 5_000
    """schedule: learner steps, divided equally among the levels; 0: all levels are reached at the start."""
    hardest_share: float = 0.5
    """Fraction of episodes at the highest level reached so far. The others come from the task's mix of all levels reached so far."""
    kind: Kind = "schedule"
    """schedule: the level rises with the learner steps. performance: a level is reached when all levels before it are passed. Levels are
    judged by extra episodes without exploration, which take at most a sixth of all environment steps."""
    pass_mark: float | None = None
    """performance: an episode is good if it earns at least this fraction of the highest possible reward; a level is passed if at least this
    fraction of the last episodes is good in each group of its scenes. None: the task's own value, as in the paper (0.5 for silhouette and
    covering_hard, 0.25 for connecting and covering)."""

    def __post_init__(self) -> None:
        check_least(self, steps=0)
        require(0 <= self.hardest_share <= 1, f"hardest_share {self.hardest_share}: must be from 0 to 1")
        require(self.kind in get_args(Kind), f"kind {self.kind!r} of a curriculum: must be {' or '.join(get_args(Kind))}")
        require(self.pass_mark is None or 0 <= self.pass_mark <= 1, f"pass_mark {self.pass_mark}: must be from 0 to 1")


class Assessed(NamedTuple):
    """The result of one extra episode by which a curriculum by performance judges the agent."""

    level: int
    """Number of the episode's level in the curriculum, from 0."""
    group: str
    """The group of the episode's scene, see `Task.group`."""
    reward: float
    best: float
    """The highest possible reward."""
    steps: int


class Curriculum(ABC):
    """Base class of curricula. Levels are reached one after another.

    A fraction of the episodes, `hardest_share`, is played at the highest level reached so far. The other episodes come from the task's own
    mix of all levels reached so far, as in the paper, so that easy scenes are not forgotten.
    """

    def __init__(self, task: str, config: CurriculumConfig) -> None:
        from trilith.world.tasks import get_task  # imported here, so that showing options does not load the physics engine

        self.task, self.config = get_task(task), config
        self.last = len(self.task.levels) - 1
        """Number of the last level."""

    @abstractmethod
    def top(self, step: int) -> int:
        """Number of the highest level reached at the learner step `step`."""

    def levels(self, step: int) -> tuple[float, ...]:
        """Probability of each level at the learner step `step`, from the first level to the last."""
        return self._up_to(self.top(step))

    def final(self) -> tuple[float, ...]:
        """Probability of each level after all levels have been reached, from the first level to the last."""
        return self._up_to(self.last)

    def _up_to(self, top: int) -> tuple[float, ...]:
        weights = np.where(np.arange(self.last + 1) <= top, self.task.mix, 0.0)
        if not weights.any():  # in a mix, levels may have the probability 0
            weights[top] = 1.0
        weights *= (1 - self.config.hardest_share) / weights.sum()
        weights[top] += self.config.hardest_share
        return tuple(float(w) for w in weights / weights.sum())

    def due(self, actor_steps: int, episodes: int) -> bool:
        """Whether `episodes` more episodes should now be played to judge the agent, given that the actors have made `actor_steps` steps so
        far. Always False if the curriculum does not judge the agent."""
        return False

    def report(self, episodes: Iterable[Assessed]) -> bool:
        """Adds the results of episodes that were played to judge the agent. Returns True if they pass the highest level reached."""
        return False

    def figures(self) -> dict[str, float]:
        """Metrics for the log, by name. Empty if the curriculum measures nothing."""
        return {}

    def state(self) -> dict[str, Any]:
        """The state of the curriculum for a checkpoint, as JSON values."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `state`. Raises ValueError or KeyError if the checkpoint does not fit this curriculum."""
        require(not state, "it has another curriculum")


class Schedule(Curriculum):
    """A curriculum by schedule: levels are reached one by one, evenly over the first `steps` learner steps, as in the paper for DQN."""

    def top(self, step: int) -> int:
        steps = self.config.steps
        return min((self.last + 1) * step // steps, self.last) if steps else self.last


class Kept(TypedDict):
    """The state of a curriculum by performance, as a checkpoint stores it."""

    passed: Annotated[int, Meta(ge=0)]
    steps: Annotated[int, Meta(ge=0)]
    good: list[tuple[int, str, str]]
    """For each group: its level, its name, and a string with a digit for each of its last episodes, 1 if the episode was good, else 0."""


class Performance(Curriculum):
    """A curriculum by performance: a level is reached when the previous level is passed, as in the paper for RS0 (§F, dynamic curriculum).

    An evaluator plays the levels reached so far, in the same mix as the actors but without exploration. The agent does not learn from
    the evaluator's episodes. An episode is good if it earns at least `pass_mark` times its highest possible reward. A group of scenes
    (`Task.group`: the same number of targets and obstacles, the same height) passes if at least `pass_mark` of its last 200 episodes
    were good. A level is passed when all its groups and all groups of lower levels pass. Passed levels stay passed, and are still
    played.

    The paper does not say what happens to groups that hardly ever occur. One such group could block a run forever. Our rules:
    - a group with at least 20 episodes is judged on its own; smaller groups of a level are pooled and judged as one group;
    - each level has its own groups, so episodes of a group at a lower level do not count for the group of the same name at a higher one;
    - a level is judged only after 200 episodes of it;
    - the evaluator makes at most one step for five steps of the actors, and stops when the last level is passed.
    """

    def __init__(self, task: str, config: CurriculumConfig) -> None:
        super().__init__(task, config)
        self.mark = self.task.pass_mark if config.pass_mark is None else config.pass_mark
        self.passed = 0
        """Number of levels passed."""
        self.steps = 0
        """Number of environment steps that the evaluator has made."""
        self.good: dict[tuple[int, str], deque[bool]] = {}
        """Maps (level, group) to the last `WINDOW` episodes of the group, each as True if the episode was good."""
        # One scene of each level is enough, because in the paper's tasks all scenes of a level have the same step limit.
        scenes = {level: self.task.generate(np.random.default_rng(0), level) for level in self.task.levels}
        self._limits = [self.task.max_steps(scene, level) for level, scene in scenes.items()]

    def top(self, step: int) -> int:
        return min(self.passed, self.last)

    def due(self, actor_steps: int, episodes: int) -> bool:
        if self.passed > self.last:
            return False
        longest = episodes * max(self._limits[: self.passed + 1])
        return SHARE * (self.steps + longest) <= actor_steps

    def report(self, episodes: Iterable[Assessed]) -> bool:
        for each in episodes:
            self.steps += each.steps
            self.good.setdefault((each.level, each.group), deque(maxlen=WINDOW)).append(each.reward >= self.mark * each.best)
        if self.passed > self.last or not self._judged() or not all(self.groups().values()):
            return False
        self.passed += 1
        return True

    def _judged(self) -> bool:
        """Whether there are enough episodes to judge the highest level reached. A level that is never played needs none."""
        known = sum(len(good) for (level, _), good in self.good.items() if level == self.passed)
        return known >= WINDOW or self._up_to(self.passed)[self.passed] == 0

    def groups(self) -> dict[tuple[int, str], bool]:
        """Maps (level, name) of each group to True if the group passes: if the fraction of its episodes that were good is at least the pass
        mark.

        At each level, groups with fewer than `LEAST` episodes are pooled under the name `RARE`. If the pool has fewer than `LEAST` episodes
        too, it is not in the result, so it cannot hold back a level.
        """
        counted: dict[tuple[int, str], list[bool]] = {}
        for (level, group), good in self.good.items():
            counted.setdefault((level, group if len(good) >= LEAST else RARE), []).extend(good)
        return {name: sum(good) >= self.mark * len(good) for name, good in counted.items() if len(good) >= LEAST}

    def figures(self) -> dict[str, float]:
        passing = list(self.groups().values())
        share = sum(passing) / len(passing) if passing else 0.0
        return {"levels_passed": self.passed, "groups_passed": share, "assessed_steps": self.steps}

    def state(self) -> dict[str, Any]:
        good = [[level, group, "".join("01"[each] for each in kept)] for (level, group), kept in self.good.items()]
        return {"passed": self.passed, "steps": self.steps, "good": good}

    def load(self, state: Mapping[str, Any]) -> None:
        kept: Kept = typed(state, Kept)
        require(kept["passed"] <= self.last + 1, f"it has passed {kept['passed']} levels of {self.last + 1}")
        self.passed, self.steps = kept["passed"], kept["steps"]
        self.good = {(level, group): deque((each == "1" for each in good), maxlen=WINDOW) for level, group, good in kept["good"]}


CURRICULA: dict[Kind, type[Curriculum]] = {"schedule": Schedule, "performance": Performance}
"""Maps `CurriculumConfig.kind` to the class of the curriculum."""
