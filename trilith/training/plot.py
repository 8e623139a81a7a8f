"""Draws the learning curves of runs. Imports no learning framework."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from trilith.training.config import CONFIG
from trilith.training.log import JSONL, read_log
from trilith.utils.checks import require
from trilith.utils.files import atomic_write, check_png, read_json
from trilith.utils.seeds import seed_runs

Points = dict[str, list[tuple[float, float]]]
"""Maps the name of a curve to its points (x, y)."""
Across = Literal["minutes", "core_minutes", "step", "actor_steps", "simulator_steps"]
_NAMES: dict[str, str] = {
    "minutes": "minutes",
    "core_minutes": "core-minutes",
    "step": "learner steps",
    "actor_steps": "actor steps",
    "simulator_steps": "simulator steps (made, counterfactual, corrections)",
}


def curve(run: Path, across: Across = "core_minutes") -> Points:
    """Returns the learning curves "hardest" and "all" of a run, with points (x, mean reward). x is the field `across` of the log. Raises
    ValueError if there are no evaluations."""
    entries = _entries(run, "valid", across, "hardest", "all")
    require(entries, f"{run} has not been evaluated yet")
    return {level: [(entry[across], entry[level]) for entry in entries] for level in ("hardest", "all")}


def passes(run: Path, across: Across = "core_minutes") -> list[tuple[float, int]]:
    """Returns a point (x, level) for each level that a run has passed in a curriculum by performance, in order of levels. x is where the
    log first shows the level as passed."""
    found: list[tuple[float, int]] = []
    for entry in _entries(run, "train", across):
        found += [(entry[across], level) for level in range(len(found), entry.get("levels_passed", 0))]
    return found


def model_curve(run: Path, across: Across = "core_minutes") -> Points:
    """Returns two curves of the transition model that a run learns together with its agent: "end" and "reward", with points (x, remaining
    error). x is the field `across` of the log. Both curves are empty if the run learns no model. Errors are measured on episodes before the
    model learned from them.

    The error of predicted ends is the Brier score divided by the Brier score of the best constant prediction. The error of predicted
    rewards is the fraction of unexplained variance.
    """
    points: Points = {}
    for name, error, constant in (
        ("end", "model_brier", "model_brier_constant"),
        ("reward", "model_reward_error", "model_reward_variance"),
    ):
        entries = _entries(run, "train", across, error, constant)
        points[name] = [(entry[across], entry[error] / entry[constant]) for entry in entries if entry[constant]]
    return points


def _entries(run: Path, kind: str, *fields: str) -> list[dict[str, Any]]:
    """Reads the lines of the kind "train" or "valid" in the log of a run that have all of `fields`. Raises ValueError if there is no
    log."""
    require((run / JSONL).exists(), f"{run} is not a run: there is no {JSONL} in it")
    return [line for line in read_log(run) if line["kind"] == kind and line.keys() >= {*fields}]


class _Curve(NamedTuple):
    """A curve of the picture: one run, or the runs of several seeds."""

    label: str
    task: str
    runs: list[Path]


def plot(runs: Sequence[Path], out: Path, across: Across = "core_minutes") -> None:
    """Draws the learning curves of runs into a picture. There is a row of panels for each task, with the hardest level on the left and all
    levels on the right.

    A folder with the runs of several seeds is drawn as one curve: the median over seeds, with a shaded band from the lowest to the highest.
    A dotted line with the number of a level marks where a curriculum by performance passed this level. If a run learns a transition model
    together with its agent, a third panel shows the model's remaining error.
    """
    require(runs, "no runs to plot")
    check_png(out)
    curves = _curves(runs)
    points = {run: curve(run, across) for each in curves for run in each.runs}  # all logs are read before anything is drawn
    models = {run: found for run in points if all((found := model_curve(run, across)).values())}
    tasks, panels = [*dict.fromkeys(each.task for each in curves)], 3 if models else 2
    figure = Figure(figsize=(5.5 * panels, 4.2 * len(tasks)), layout="constrained")
    for row, task in zip(figure.subplots(len(tasks), panels, squeeze=False, sharex="row"), tasks, strict=True):
        _draw_task(row, task, [each for each in curves if each.task == task], points, across)
        learned = [models[run] for each in curves for run in each.runs if run in models and each.task == task]
        if learned:
            _draw_models(row[2], learned, across)
    with atomic_write(out) as aside:
        figure.savefig(aside, dpi=120)


def _curves(runs: Sequence[Path]) -> list[_Curve]:
    """Makes one curve for each run, and one for each folder of seeds. Labels are the paths relative to the common parent folder. Raises
    ValueError if a folder has runs of several tasks."""
    folders = [run.absolute() for run in runs]
    common = os.path.commonpath([run.parent for run in folders])
    found = []
    for folder in folders:
        seeds = [Path(run) for run in seed_runs(str(folder))]
        tasks = {_task(run) for run in seeds}
        require(len(tasks) == 1, f"{folder} holds runs of several tasks: {', '.join(sorted(tasks))}")
        name = str(folder.relative_to(common)) if len(runs) > 1 else folder.name
        found.append(_Curve(f"{name}, {len(seeds)} seeds" if len(seeds) > 1 else name, tasks.pop(), seeds))
    return found


def _task(run: Path) -> str:
    """The task of a run. Raises ValueError if there is no log or no config."""
    _entries(run, "valid")
    config = read_json(run / CONFIG)
    require(isinstance(config, dict) and isinstance(config.get("task"), str), f"{run / CONFIG} names no task")
    return str(config["task"])


def _draw_task(row: Any, task: str, curves: Sequence[_Curve], points: Mapping[Path, Points], across: Across) -> None:
    """Draws the curves of a task into the panels of `row`: the hardest level into the first, all levels into the second. `points` has the
    curves of each run, as `curve` returns them."""
    for axis, level in zip(row, ("hardest", "all"), strict=False):
        for number, each in enumerate(curves):
            colour, seeds = f"C{number}", [np.array(points[run][level]) for run in each.runs]
            # Seeds take different times for the same number of evaluations, so x and y of a point are both medians.
            shared = np.stack([seed[: min(map(len, seeds))] for seed in seeds])
            (xs, ys), rewards = np.median(shared, axis=0).T, shared[..., 1]
            axis.plot(xs, ys, marker=".", color=colour, label=each.label)
            if len(seeds) > 1:
                axis.fill_between(xs, rewards.min(axis=0), rewards.max(axis=0), color=colour, alpha=0.2, linewidth=0)
            for x, passed in passes(each.runs[0], across) if len(seeds) == 1 else ():
                axis.axvline(x, color=colour, linestyle=":", linewidth=1)
                axis.annotate(f" {passed}", (x, 1), xycoords=("data", "axes fraction"), va="top", fontsize="small", color=colour)
        axis.set(title=f"{task}, validation scenes, {level}", xlabel=_NAMES[across])
        axis.grid(alpha=0.3)
    row[0].set_ylabel("mean reward, without exploration")
    row[0].legend(fontsize="small")


def _draw_models(axis: Any, models: Sequence[Points], across: Across) -> None:
    """Draws the remaining errors of learned models into a panel, with one colour per model."""
    for number, points in enumerate(models):
        for name, style in (("end", "-"), ("reward", ":")):
            xs, ys = zip(*points[name], strict=True)
            axis.plot(xs, ys, style, color=f"C{number}", label=None if number else name)
    axis.set(title="the model, on episodes it had not learned from", ylabel="error / error of a constant prediction", yscale="log")
    axis.set_xlabel(_NAMES[across])
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")
