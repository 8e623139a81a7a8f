"""The types and bounds of the fields in files of `trilith evaluate`: results, and lines of the journal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypedDict

from msgspec import Meta

from trilith.evaluation.scene_sets import VERSION, Split
from trilith.utils.checks import require, shortened
from trilith.utils.files import CHECKSUM, check_sealed, prefix_errors, read_json, typed
from trilith.world.episode import Reason, physics_from_json
from trilith.world.scene import INVALID_EDGE, SLOTS
from trilith.world.tasks import Level

Count = Annotated[int, Meta(ge=0)]
Placed = tuple[Annotated[int, Meta(ge=INVALID_EDGE.slot, lt=SLOTS)], float, float, bool]
"""A placement: slot (-1: an invalid edge), x and y in metres, sticky."""


class Played(TypedDict):
    """An episode of an evaluation, as the journal stores it. `blocks` is the number of placed blocks, `glue` that of sticky ones."""

    index: Count
    level: Level
    reward: float
    kept: float | None
    """Return without `zero_on_hit`. None if the agent searched with this rule, because its return without the rule is then unknown."""
    forfeited: float | None
    """Return with `zero_on_hit`. None if the agent searched without this rule, because its return with the rule is then unknown."""
    best: float
    """Highest possible reward in the scene."""
    blocks: Count
    glue: Count
    reason: Reason
    placements: list[Placed | None]


Figure = Annotated[float, Meta(ge=-1e9, le=1e9)]
"""A mean, a fraction or an interval. The bounds ensure that it can be drawn."""
MAX_RESULT = 2**28
"""Maximum size of a result in bytes. A result may contain 10,000 whole episodes."""
Some = Annotated[int, Meta(ge=1, le=10**9)]
"""A number of episodes or simulations, 1 or more."""


class Searched(TypedDict):
    """The search in a result. Besides the budget, it has all other options of `SearchConfig` and, if the agent searched in a learned model,
    the fingerprint of this model."""

    budget: Some


class OfLevel(TypedDict):
    """Number of episodes of one level, their mean reward, and the mean of the highest possible reward (`most`)."""

    episodes: Some
    reward: Figure
    most: Figure


class _Start(TypedDict):
    """The initial state in a recording. Only its level is checked here; the other fields are checked when the recording is replayed."""

    level: Level


class Worst(TypedDict):
    """One of the worst episodes of a result, with all placements. It has the fields of a recording, so it can be replayed. `most` is the
    highest possible reward."""

    index: Count
    reward: Figure
    most: Figure
    reason: Reason
    start: _Start
    placements: list[Placed | None]


class Result(TypedDict):
    """The fields of a result that `read_result` checks.

    `reward`, `blocks` (all placed blocks) and `glue` (the sticky ones) are means over the episodes. `kept` and `forfeited` are the mean
    return without and with `zero_on_hit`; None if unknown. `interval` is half the width of the 95 % interval of `reward`; None for a single
    scene. `share` is the sum of all rewards divided by the sum of the highest possible ones. `solved` is the fraction of episodes that
    ended with the reason complete. `reasons` maps a reason to its number of episodes, and `by_level` maps a level to its means.
    """

    agent: str
    task: str
    level: Level
    split: Split
    seed: Count
    zero_on_hit: bool
    search: Searched | None
    version: int
    physics: int
    episodes: Some
    reward: Figure
    kept: Figure | None
    forfeited: Figure | None
    interval: Figure | None
    share: Figure
    solved: Figure
    blocks: Figure
    glue: Figure
    reasons: dict[str, Count]
    by_level: dict[str, OfLevel]
    worst: list[Worst]


def read_result(path: Path) -> dict[str, Any] | None:
    """Reads a result. Returns None if the JSON file holds something else. Raises ValueError if the file cannot be read, if the result is
    damaged or has a wrong field, or if it is from a version of the scenes or of the physics that this package does not know."""
    data = read_json(path, most=MAX_RESULT)
    if not isinstance(data, dict) or not (CHECKSUM in data or data.keys() >= Result.__annotations__.keys()):
        return None
    check_sealed(path, data)  # before all other checks, because damage may be in a field's name
    if not data.keys() >= Result.__annotations__.keys():
        return None
    check_versions(path, data)
    with prefix_errors(f"{path} is not valid: "):
        typed(data, Result)
    return data


def check_versions(path: Path, data: Mapping[str, Any]) -> None:
    """Raises ValueError if a result was measured with a version of the scenes or of the physics that this package does not know."""
    require(
        isinstance(data["version"], int) and 1 <= data["version"] <= VERSION,
        f"{path} is on version {shortened(data['version'])} of the scenes, this version of trilith knows {VERSION}",
    )
    with prefix_errors(f"{path}: "):
        physics_from_json(data)
