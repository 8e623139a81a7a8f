"""The definition of a task: a generator of scenes, a score, and a few numbers. The rules of an episode are in `episode.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from trilith.utils.checks import require, shortened
from trilith.world.scene import SLOTS, Role, Scene

Level = int | str
"""A curriculum level by number, or a generalisation level by name."""

SPACING = 0.70
"""Height of a layer: layer k has its centre at 0.35 + k * SPACING.

The value is chosen for this engine, in which loose blocks stacked one after another sink up to 0.014 m into each other.
Glued blocks are bonded where they first touch, up to 0.005 m apart, and stay there.
`benchmarks/rest.py` measures the final centres of six layers, and the fraction of its target that the top block overlaps:
    SPACING 0.70            0.35   1.05   1.75   2.45   3.15   3.85
    six small               0.349  1.044  1.740  2.437  3.135  3.834  97.6 %
    six medium              0.349  1.042  1.736  2.431  3.128  3.827  96.6 %
    six large               0.349  1.041  1.735  2.430  3.127  3.826  96.5 %
    five large on a small   0.347  1.033  1.727  2.422  3.119  3.818  95.4 %
    any of these with glue  0.350  1.051  1.751  2.452  3.157  3.857  99.0 %
    seven large on a small  0.350  1.051  1.751  2.452  3.157  3.857  99.0 % (glued, two each in the last two layers)
A block fills its target if it overlaps more than 90 % of it. So a straight tower of any blocks, loose or glued, fills all its targets.
If every block is sticky and there are no obstacles, generated silhouettes are filled completely (200 scenes at each of four levels,
up to sixteen targets).
"""

SCENE_WIDTH = 14.0
"""Metres: targets and obstacles lie within x from -7 to 7."""

OBSTACLE_HEIGHT = 0.35


def layer_y(layer: int) -> float:
    """y of the centre of a layer, in metres. The number of the lowest layer is 0."""
    return 0.35 + SPACING * layer


def spread(rng: np.random.Generator, widths: Sequence[float], min_gap: float = 0.0) -> list[float]:
    """Arranges objects with these `widths` side by side across the 14 m of the scene, with random gaps. Returns x of their centres. All
    lengths are in metres.

    The free length is split into gaps, including one at each end, in proportion to independent U(0, 1) draws. The draws are repeated until
    every gap between two objects is at least `min_gap`. Raises ValueError if the objects and these gaps need more than 14 m.
    """
    widths_ = np.asarray(widths)
    free = SCENE_WIDTH - widths_.sum()
    require(free > max(len(widths_) - 1, 0) * min_gap, f"{len(widths_)} objects with gaps of {min_gap} m do not fit into {SCENE_WIDTH} m")
    while True:
        share = rng.random(len(widths_) + 1)
        gaps = free * share / share.sum()
        if (gaps[1:-1] >= min_gap).all():
            break
    right = np.cumsum(gaps[:-1] + widths_) - SCENE_WIDTH / 2
    return [float(x) for x in right - widths_ / 2]


def obstacle_layer(
    rng: np.random.Generator, layer: int, count: tuple[int, int], width: tuple[float, float], min_gap: float = 0.0
) -> list[tuple[float, float, float, float]]:
    """Draws the obstacles of the layer number `layer`. Returns (x, y, width, height) for each, in metres. Their number is uniform in the
    range `count`, both ends included. Their widths are uniform in the range `width`. The gaps between them are at least `min_gap`
    metres."""
    n = int(rng.integers(count[0], count[1] + 1))
    widths = rng.uniform(*width, size=n).tolist()
    return [(x, layer_y(layer), w, OBSTACLE_HEIGHT) for x, w in zip(spread(rng, widths, min_gap), widths, strict=True)]


class Progress(NamedTuple):
    """The finished parts of a task in a scene, for display."""

    done: tuple[bool, ...] = ()
    """For each target, in row order, whether it is done; empty if the task has none."""
    covered: tuple[tuple[float, float, float], ...] = ()
    """(left x, right x, y) of each covered interval on the top of an obstacle, in metres; empty if covering is not the task."""


class Task(ABC):
    """A construction task. A subclass defines the class variables without a default and the abstract methods. Its constructor needs no
    arguments."""

    name: str
    """The name in the command line and in files. The name of a user's task can be my_module:MyTask."""
    title: str
    """The name in prose and, without spaces, in the Gymnasium id."""
    unit: ClassVar[str] = ""
    """The unit of the score, if it has one."""
    levels: ClassVar[tuple[int, ...]]
    """The levels of the curriculum, easiest first. The last level is also called "hardest"."""
    mix: ClassVar[tuple[float, ...]]
    """Probability of each of `levels` in the training mix "all", in the same order."""
    generalisation: ClassVar[tuple[str, ...]] = ()
    """Named levels outside the curriculum, for testing only."""
    sticky_cost: ClassVar[float]
    """How much the reward is reduced by each sticky block."""
    keeps_supply: ClassVar[bool] = True
    """Whether a used block stays available."""
    pass_mark: ClassVar[float] = 0.5
    """For a curriculum by performance. An episode is good if it earns at least this fraction of its highest possible reward. A group
    of scenes passes if at least this fraction of its recent episodes is good."""
    grid: ClassVar[tuple[int, int]] = (8, 64)
    """Number of rows and of columns of the grid of the discrete absolute action space: the numbers that the paper found best."""

    @abstractmethod
    def generate(self, rng: np.random.Generator, level: Level) -> Scene:
        """A new scene of a level, as `check_level` returns it. It depends on nothing but `rng` and `level`."""

    @abstractmethod
    def score(self, scene: Scene) -> float:
        """The score of the blocks in the scene, without the cost of glue. It must be 0 in a new scene."""

    @abstractmethod
    def best(self, scene: Scene) -> float:
        """Upper bound of the score in this scene. In some scenes no builder can reach it."""

    def group(self, scene: Scene) -> dict[str, int | str]:
        """The group to which a scene belongs, as names and values. Two scenes are of the same group if the results are equal. In a
        curriculum by performance, each group must be passed separately. `scene` must be a scene before the first placement.

        As in the paper, there are four values: the number of targets, the number of obstacles, the layer of the highest target and the
        layer of the highest obstacle. A layer is −1 if there is no such object.
        """
        found: dict[str, int | str] = {}
        for name, role in (("target", Role.TARGET), ("obstacle", Role.OBSTACLE)):
            heights = scene.pose[scene.rows(role), 1]
            found[f"{name}s"] = len(heights)
            found[f"highest_{name}"] = round((float(heights.max()) - layer_y(0)) / SPACING) if len(heights) else -1
        return found

    def progress(self, scene: Scene) -> Progress:
        """The parts that a picture of the scene marks as done; none by default."""
        return Progress()

    def complete(self, scene: Scene, score: float) -> bool:
        """Whether nothing is left to do in a scene with this `score`."""
        return score >= self.best(scene)

    @abstractmethod
    def max_steps(self, scene: Scene, level: Level) -> int:
        """Step limit of an episode. `scene` may be any scene of it, so placed blocks must not change the result."""

    @abstractmethod
    def max_objects(self, level: Level) -> int:
        """Maximum number of rows of a scene of this level, at the end of its longest episode."""

    def check_level(self, level: Level) -> Level:
        """Returns `level` in the form in which the task lists it: "hardest" becomes the number of the last level, "3" becomes 3. Raises
        ValueError, with the known levels, if the task has no such level."""
        if level == "hardest":
            return self.levels[-1]
        if isinstance(level, str) and level.isdecimal():
            level = int(level)
        for each in (*self.levels, *self.generalisation):
            if level == each and not isinstance(level, bool):
                return each  # returns the int of the table, even if `level` is a float or a numpy integer
        names = "".join(f", {name}" for name in self.generalisation)
        raise ValueError(f"{self.name} has no level {shortened(level)}: choose hardest, all, {self.levels[0]} to {self.levels[-1]}{names}")

    def draw_level(self, rng: np.random.Generator, level: Level) -> Level:
        """The level of one episode: "all" draws from the training mix, any other level is checked and returned."""
        if level == "all":
            return int(rng.choice(self.levels, p=self.mix))
        return self.check_level(level)

    def objects_for(self, level: Level) -> int:
        """Maximum number of rows that a scene of this level can have. If `level` is "all", the maximum over all levels of the training
        mix."""
        return max(self.max_objects(each) for each in (self.levels if level == "all" else (self.check_level(level),)))


def uniform(levels: Sequence[int]) -> tuple[float, ...]:
    """A mix in which every level is equally likely."""
    return tuple(1 / len(levels) for _ in levels)


BASE_OBJECTS = SLOTS + 1
"""Number of rows that every scene has: the available blocks and the floor."""
