"""The fields of a result of `trilith evaluate` and of a line of its journal, with their types and bounds."""

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
"""A placement: slot, x, y, sticky."""


class Played(TypedDict):
    """An episode in a line of the journal."""

    index: Count
    level: Level
    reward: float
    kept: float | None
    """Return without `zero_on_hit`; None if unknown."""
    forfeited: float | None
    """Return with `zero_on_hit`; None if unknown."""
    best: float
    blocks: Count
    glue: Count
    reason: Reason
    placements: list[Placed | None]


Figure = Annotated[float, Meta(ge=-1e9, le=1e9)]
"""A mean, a fraction or an interval. The bounds ensure that it can be drawn."""
MAX_RESULT = 2**28
"""Maximum size of a result in bytes. A result may contain 10,000 whole episodes."""
Some = Annotated[int, Meta(ge=1, le=10**9)]


class Searched(TypedDict):
    """The search of an agent: the options of a `SearchConfig`, and the fingerprint of the learned model, if it searched in one."""

    budget: Some


class OfLevel(TypedDict):
    """Means over the episodes of one level."""

    episodes: Some
    reward: Figure
    most: Figure


class _Start(TypedDict):
    """The fields that are shown of the initial state of a recording."""

    level: Level


class Worst(TypedDict):
    """One of the worst episodes, which a result contains with all placements. It can be read as a recording."""

    index: Count
    reward: Figure
    most: Figure
    reason: Reason
    start: _Start
    placements: list[Placed | None]


class Result(TypedDict):
    """The fields of a result that a report reads."""

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
    """Reads the result in a file. Returns None if the file holds something else. Raises ValueError if the result is damaged or a field is
    wrong."""
    data = read_json(path, most=MAX_RESULT)
    if not isinstance(data, dict) or not (CHECKSUM in data or data.keys() >= Result.__annotations__.keys()):
        return None
    check_sealed(path, data)  # before all other checks, because damage may be in a field's name
    if not data.keys() >= Result.__annotations__.keys():
        return None
    check_versions(path, data)
    with prefix_errors(f"{path} is not what it should be: "):
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
