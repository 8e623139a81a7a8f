"""The claims of the paper, each as a comparison of two agents, and the verdict on each from the measurements in the ledger. The values that
the paper prints are in `figures.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any, Literal

from trilith.evaluation.statistics import Interval, difference_of_seeds, mean_over_seeds
from trilith.paper.figures import FOUR, MODEL_FREE, OBJECTS, ONLINE, RAW, RECURRENT, SEARCHED, TRAINED, Row
from trilith.world.tasks import Level

Verdict = Literal["agrees", "disagrees", "undecided here"]
SEEDS = 3
"""Minimum number of seeds per trained agent for a verdict."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: in each of `tasks`, the agent `better` earns more than the agent `worse`."""

    topic: str
    text: str
    where: str
    """Section or figure of the paper; "ours" if the claim is not the paper's."""
    better: Row
    worse: Row
    tasks: tuple[str, ...] = FOUR
    level: Level = "all"


_ROWS = {row.label: row for row in MODEL_FREE}
_GN_DQN, _LESS = _ROWS["GN-DQN, relative"], [_ROWS[f"{name}, relative"] for name in ("RNN-RS0", "CNN-RS0", "GN-RS0")]
_BEYOND: tuple[tuple[str, str], ...] = (
    ("silhouette", "double_the_targets"),
    ("connecting", "mixed_height_targets"),
    ("connecting", "additional_layer"),
)
STRUCTURE = ("relative actions", "structure", "generalisation")
"""Topics of the claims that `answer` counts, to tell whether structured agents are better."""

CLAIMS: tuple[Claim, ...] = (
    *(
        Claim(
            "relative actions", f"{name}: relative actions earn more than absolute ones", "§5.1, Fig. 4", _ROWS[f"{name}, relative"],
            _ROWS[f"{name}, absolute"], level=level,
        )
        for level in ("all", "hardest")
        for name in ("RNN-RS0", "CNN-RS0", "GN-RS0", "GN-DQN")
    ),
    *(
        Claim(
            "structure", f"GN-DQN earns more than {row.label.partition(',')[0]}, both with relative actions", "§5.1, Fig. 4", _GN_DQN, row,
            ("silhouette", "connecting", "covering"),
        )
        for row in _LESS
    ),
    Claim(
        "planning", "MCTS at test time helps", "§5.2, §E.2", SEARCHED[50], SEARCHED[0], ("silhouette", "connecting", "covering_hard"),
        "hardest",
    ),
    Claim(
        "planning", "MCTS at training time helps as well in Covering Hard", "§5.2, §E.2", TRAINED[10], SEARCHED[10], ("covering_hard",),
        "hardest",
    ),
    *(
        Claim(
            "generalisation", f"GN-DQN earns more than {row.label.partition(',')[0]} beyond the curriculum: {level.replace('_', ' ')}",
            "§5.3, Fig. 6", _GN_DQN, row, (task,), level,
        )
        for task, level in _BEYOND
        for row in _LESS
    ),
    Claim("recurrent steps", "Three recurrent steps earn more than one", "§5.4, Fig. D.1", RECURRENT[3], RECURRENT[1]),
    Claim("pixels", "CNN-GN-DQN earns more than CNN-RS0", "§5.1, Fig. C.2", Row("CNN-GN-DQN", "cnn-gn-dqn"), _ROWS["CNN-RS0, relative"]),
    Claim(
        "models", "With a model learned online more is earned in few steps than without", "§E.3, Fig. E.3",
        ONLINE["graph"],
        Row("free", "gn-dqn", options=(("agent.learning_rate", 2e-4),)), ("silhouette", "covering_hard"),
    ),
    Claim("raw search", "GN-DQN earns more than raw search with 1,000 simulations", "§5.2, Fig. 5", _GN_DQN, RAW[1000, 2], level="hardest"),
    Claim("ours", "objects earns more than GN-DQN (no claim of the paper)", "ours", OBJECTS, _GN_DQN, level="hardest"),
)  # fmt: skip
"""The claims in the text of the paper, and one of our own. Each claim gets one verdict per task."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison: the mean rewards of an agent in a task and level."""

    means: dict[int, float]
    """Maps the seed of each training to the mean reward of the agent. Seeds that learned nothing are left out. An agent that needs no
    training has a single entry."""
    unlearned: int
    """Number of seeds that do not beat random legal placements. They are not in `means`."""
    trained: bool
    """Whether the agent was trained, so that its seeds differ."""
    error: float = 0.0
    """Standard error of the mean over scenes, for an agent that needs no training. For a trained agent it is 0, because the variation
    between its seeds includes this error."""


def compare_sides(better: Side, worse: Side) -> tuple[Interval | None, Verdict]:
    """Compares two agents. Returns the difference of their mean rewards (better minus worse) with its 95 % interval over seeds, and the
    verdict. An agent that needs no training has no seeds; instead, its standard error over scenes widens the interval.

    The difference is None if an agent has no entries, or if a trained agent has fewer than two seeds that learned something. The verdict is
    "undecided here" if the difference is None, if a trained agent has fewer than `SEEDS` such seeds, or if the interval contains 0.
    """
    trained = [side for side in (better, worse) if side.trained]
    first, second = ([*side.means.values()] for side in (better, worse))
    if not first or not second or any(len(side.means) < 2 for side in trained):
        return None, "undecided here"
    if better.trained and worse.trained:
        found = difference_of_seeds(first, second)
    elif better.trained:
        found = mean_over_seeds([mean - second[0] for mean in first])
    else:
        found = mean_over_seeds([first[0] - mean for mean in second])
    half = hypot(found.high - found.value, 1.96 * better.error, 1.96 * worse.error)
    found = Interval(found.value, found.value - half, found.value + half)
    if any(len(side.means) < SEEDS for side in trained) or not found.excludes_zero:
        return found, "undecided here"
    return found, "agrees" if found.value > 0 else "disagrees"


def answer(verdicts: Sequence[dict[str, Any]]) -> str:
    """One sentence that says whether structured agents are better. `verdicts` is the list "claims" that `report.collect` makes."""
    about = [each["verdict"] for each in verdicts if each["topic"] in STRUCTURE]
    yes, no, open_ = (about.count(verdict) for verdict in ("agrees", "disagrees", "undecided here"))
    evidence = f"of {len(about)} comparisons {yes} agree with the paper, {no} disagree and {open_} are undecided"
    if not yes and not no:
        return f"Does structure pay? Not known from this ledger: {evidence}."
    if yes and not no:
        return f"Does structure pay? Yes, wherever it could be decided here: {evidence}."
    if no and not yes:
        return f"Does structure pay? Not here: {evidence}."
    return f"Does structure pay? Sometimes: {evidence}."
