"""Draws the learning curves of runs. Imports no learning framework."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from matplotlib.figure import Figure

from trilith.training.log import JSONL, read_log
from trilith.utils.checks import require
from trilith.utils.files import atomic_write, check_png

Across = Literal["minutes", "core_minutes", "step", "actor_steps", "simulator_steps"]
_NAMES: dict[str, str] = {
    "minutes": "minutes",
    "core_minutes": "core-minutes",
    "step": "learner steps",
    "actor_steps": "actor steps",
    "simulator_steps": "steps of the simulator, those simulated beside others and in searches included",
}


def curve(run: Path, across: Across = "core_minutes") -> dict[str, list[tuple[float, float]]]:
    """Points (x, mean reward) of a run's evaluations, on the hardest level and on all levels. Raises ValueError if there are none."""
    entries = [entry for entry in _entries(run, "valid") if "hardest" in entry and "all" in entry]
    require(entries, f"{run} has not been evaluated yet")
    return {level: [(entry[across], entry[level]) for entry in entries] for level in ("hardest", "all")}


def passes(run: Path, across: Across = "core_minutes") -> list[tuple[float, int]]:
    """(x, level) for each level that a run has passed in a curriculum by performance. At x the log first shows the level as passed."""
    found: list[tuple[float, int]] = []
    for entry in _entries(run, "train"):
        found += [(entry[across], level) for level in range(len(found), entry.get("levels_passed", 0))]
    return found


def model_curve(run: Path, across: Across = "core_minutes") -> dict[str, list[tuple[float, float]]]:
    """Points (x, remaining error) of the model that a run learns beside its agent; empty if there is no model. Errors are measured on
    episodes before the model learned from them.

    For ends, the error is the Brier score divided by the Brier score of the best constant prediction. For rewards, it is the fraction
    of unexplained variance.
    """
    points: dict[str, list[tuple[float, float]]] = {"end": [], "reward": []}
    for entry in _entries(run, "train"):
        if constant := entry.get("model_brier_constant"):
            points["end"].append((entry[across], entry["model_brier"] / constant))
        if variance := entry.get("model_reward_variance"):
            points["reward"].append((entry[across], entry["model_reward_error"] / variance))
    return points


def _entries(run: Path, kind: str) -> list[dict[str, Any]]:
    """The lines of a kind in the log of a run. Raises ValueError if there is no log."""
    require((run / JSONL).exists(), f"{run} is not a run: there is no {JSONL} in it")
    return [line for line in read_log(run) if line["kind"] == kind]


def plot(runs: Sequence[Path], out: Path, across: Across = "core_minutes") -> None:
    """Draws the learning curves of runs and writes the picture. The left panel shows the hardest level, the right panel all levels.

    A dotted line with the level's number marks where a curriculum by performance passed a level. If a run learns a model of the world
    beside its agent, a third panel shows the model's remaining error.
    """
    require(runs, "no runs to plot")
    check_png(out)
    curves = {run.absolute(): curve(run, across) for run in runs}
    common = os.path.commonpath([run.parent for run in curves])
    models = {run: points for run in curves if all((points := model_curve(run, across)).values())}
    panels = 3 if models else 2
    figure = Figure(figsize=(5.5 * panels, 4.2), layout="constrained")
    axes = figure.subplots(1, panels, sharex=True)
    colours = {}
    for axis, level in zip(axes, ("hardest", "all"), strict=False):
        for run, points in curves.items():
            xs, ys = zip(*points[level], strict=True)
            [line] = axis.plot(xs, ys, marker=".", label=str(run.relative_to(common)) if len(runs) > 1 else run.name)
            colour = colours[run] = line.get_color()
            for x, passed in passes(run, across):
                axis.axvline(x, color=colour, linestyle=":", linewidth=1)
                axis.annotate(f" {passed}", (x, 1), xycoords=("data", "axes fraction"), va="top", fontsize="small", color=colour)
        axis.set_title(f"validation scenes, {level}")
    for run, points in models.items():
        for name, style in (("end", "-"), ("reward", ":")):
            xs, ys = zip(*points[name], strict=True)
            axes[2].plot(xs, ys, style, color=colours[run], label=name if run == next(iter(models)) else None)
    if models:
        axes[2].set(title="the model, on episodes it had not learned from", ylabel="error left, of that of knowing nothing", yscale="log")
        axes[2].legend(fontsize="small")
    for axis in axes:
        axis.set(xlabel=_NAMES[across])
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("mean reward, without exploring")
    axes[0].legend(fontsize="small")
    with atomic_write(out) as aside:
        figure.savefig(aside, dpi=120)
