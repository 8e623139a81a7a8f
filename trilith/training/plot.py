"""Learning curves of runs as a picture. Imports no learning framework."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NotRequired, TypedDict

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from trilith.support.files import atomic_write, check_png, parse_json

Across = Literal["minutes", "step", "actor_steps"]
_NAMES: dict[str, str] = {"minutes": "minutes", "step": "learner steps", "actor_steps": "actor steps"}


class Line(TypedDict):
    """A line of the log, as far as it is drawn."""

    kind: str
    step: float
    minutes: float
    actor_steps: float
    hardest: NotRequired[float]
    all: NotRequired[float]
    """These two are told by evaluations."""
    levels_passed: NotRequired[int]


def curve(run: Path, across: Across = "minutes") -> dict[str, list[tuple[float, float]]]:
    """Points (x, mean reward) of a run's evaluations, on the hardest level and on all. Raises ValueError if there are none."""
    points: dict[str, list[tuple[float, float]]] = {"hardest": [], "all": []}
    for entry in _entries(run, "valid"):
        if "hardest" in entry and "all" in entry:
            points["hardest"].append((entry[across], entry["hardest"]))
            points["all"].append((entry[across], entry["all"]))
    if not points["hardest"]:
        raise ValueError(f"{run} has not been evaluated yet")
    return points


def passes(run: Path, across: Across = "minutes") -> list[tuple[float, int]]:
    """(x, level) of each level that a run with a curriculum by performance has passed, as its log first tells it."""
    found: list[tuple[float, int]] = []
    for entry in _entries(run, "train"):
        found += [(entry[across], level) for level in range(len(found), entry.get("levels_passed", 0))]
    return found


def _entries(run: Path, kind: str) -> list[Line]:
    """The lines of a kind in the log of a run. Raises ValueError if there is no log."""
    path = run / "log.jsonl"
    if not path.exists():
        raise ValueError(f"{run} is not a run: there is no {path.name} in it")
    found = []
    for line in path.read_bytes().splitlines():
        with suppress(ValueError):  # half a line: the machine stopped while it was written
            entry: Line = parse_json(line, Line)
            if entry["kind"] == kind:
                found.append(entry)
    return found


def plot(runs: Sequence[Path], out: Path, across: Across = "minutes") -> None:
    """Draws the learning curves of runs side by side, the hardest level left and all levels right, and writes the picture.

    A dotted line marks where a curriculum by performance passed a level, with its number.
    """
    if not runs:
        raise ValueError("no runs to plot")
    check_png(out)
    curves = {run.absolute(): curve(run, across) for run in runs}
    common = Path(*_common([run.parts for run in curves]))
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), sharex=True, layout="constrained")
    for axis, level in zip(axes, ("hardest", "all"), strict=True):
        for run, points in curves.items():
            xs, ys = zip(*points[level], strict=True)
            [line] = axis.plot(xs, ys, marker=".", label=str(run.relative_to(common)) if len(runs) > 1 else run.name)
            for x, passed in passes(run, across):
                axis.axvline(x, color=line.get_color(), linestyle=":", linewidth=1)
                axis.annotate(f" {passed}", (x, 1), xycoords=("data", "axes fraction"), va="top", fontsize="small", color=line.get_color())
        axis.set_title(f"validation scenes, {level}")
        axis.set_xlabel(_NAMES[across])
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("mean reward, without exploring")
    axes[0].legend(fontsize="small")
    with atomic_write(out) as aside:
        figure.savefig(aside, dpi=120)
    plt.close(figure)


def _common(paths: Sequence[tuple[str, ...]]) -> list[str]:
    """The folders that all paths begin with, the last part of a path never counted."""
    shared = []
    for parts in zip(*(path[:-1] for path in paths), strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return shared
