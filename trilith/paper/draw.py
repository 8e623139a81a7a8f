"""The pictures of the report: plots arranged as in the paper, and pictures of the final scenes of episodes, which are replayed from the
ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trilith.evaluation.scene_sets import start_in_set
from trilith.paper.figures import FIGURES, Figure, Row, level_name
from trilith.paper.ledger import Entry
from trilith.render.pictures import contact_sheet, episode_frames, film, picture, save_png, without_sky
from trilith.utils.files import atomic_write, make_folder
from trilith.world.episode import Recording, State
from trilith.world.tasks import Level, get_task

if TYPE_CHECKING:
    from trilith.paper.report import Found

COLOURS = ("#3b6fb6", "#e08a2c", "#5a9e5a", "#b2484c", "#7d5fa8", "#7a6a5d", "#c77ab0", "#888888", "#2c9c9c", "#b8a12c")
SHOWN = 3
"""Number of episodes per agent in a picture, unless the paper shows ten."""
TEN = ("tableG.1", "H.5", "H.6")
"""The figures for which the paper shows ten episodes per agent."""
FILMED = 10
"""Number of episodes that are filmed of each agent."""

Points = Sequence[Mapping[str, Any]]


def draw_figure(figure: Figure, points: Points, found: Found, path: Path) -> bool:
    """Draws a figure into the file `path` and returns True. If there is nothing to draw, removes the file and returns False. `points` has
    the figure's numbers, as `report.collect` makes them, and `found` the entries of the ledger."""
    if figure.kind == "actions" or (figure.kind != "scenes" and not points):
        path.unlink(missing_ok=True)
        return False
    if figure.kind == "scenes":
        _draw_curriculum(figure.tasks[0], path)
    elif figure.kind == "pictures":
        _draw_built(figure, found, path)
    else:
        _draw_panels(figure, points, path)
    return True


def _draw_panels(figure: Figure, points: Points, path: Path) -> None:
    """Draws a panel for each pair of task and level, with a shared legend."""
    from matplotlib.figure import Figure as Canvas

    panels = [*dict.fromkeys((each["task"], each["level"]) for each in points)]
    rows = [*dict.fromkeys(each["row"] for each in points)]
    columns = min(2 * len(panels), 6)
    canvas = Canvas(figsize=(4.2 * len(panels) + 1, 4.4 + 0.2 * len(rows) / columns), layout="constrained")
    axes = canvas.subplots(1, len(panels), squeeze=False)[0]
    colours = {row: COLOURS[k % len(COLOURS)] for k, row in enumerate(rows)}
    draw = {"bars": _draw_bars, "budgets": _draw_budgets, "curves": _draw_curves}[figure.kind]
    for axis, (task, level) in zip(axes, panels, strict=True):
        draw(axis, [each for each in points if (each["task"], each["level"]) == (task, level)], colours, figure)
        axis.set_title(f"{get_task(task).title}, {level_name(task, level).replace('_', ' ')}")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("share not solved" if figure.metric == "unsolved" else "mean reward: median, lowest and highest seed")
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    canvas.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns, frameon=False, fontsize="small")
    with atomic_write(path) as aside:
        canvas.savefig(aside, dpi=110)


def _draw_bars(axis: Any, points: Points, colours: Mapping[str, str], figure: Figure) -> None:
    for x, point in enumerate(points):
        middle, low, high = point["median_low_high"]
        axis.bar(x, middle, color=colours[point["row"]], label=point["row"])
        if len(point["seeds"]) > 1:
            axis.errorbar(x, middle, [[middle - low], [high - middle]], color="black", capsize=3)
        for printed in figure.printed:
            if (printed.row, printed.task, printed.level) == (point["row"], point["task"], level_name(point["task"], point["level"])):
                axis.hlines(printed.value, x - 0.45, x + 0.45, color="black", linestyle="--", label="the paper")
    axis.set_xticks([])
    axis.axhline(0, color="black", linewidth=0.5)


def _draw_budgets(axis: Any, points: Points, colours: Mapping[str, str], figure: Figure) -> None:
    for name in dict.fromkeys(each["row"].partition(", tested")[0] for each in points):
        line = sorted((each["budget"], each["median_low_high"]) for each in points if each["row"].partition(", tested")[0] == name)
        colour = next(colours[each["row"]] for each in points if each["row"].startswith(name))
        if not name.startswith(("raw", "random")):
            budgets, values = zip(*line, strict=True)
            axis.plot(budgets, [value[0] for value in values], marker=".", color=colour, label=name)
            axis.fill_between(budgets, [value[1] for value in values], [value[2] for value in values], color=colour, alpha=0.2)
        else:
            axis.axhline(line[0][1][0], color="grey", linestyle="--" if name.startswith("raw") else ":", label=name)
    for printed in figure.printed:
        budget = next(row.search.budget for row in figure.rows if row.label == printed.row)
        if points and printed.task == points[0]["task"]:
            axis.plot([budget], [printed.value], "k*", label="the paper")
    axis.set_xscale("symlog", linthresh=5)
    axis.set_xlabel("simulations per decision")


def _draw_curves(axis: Any, points: Points, colours: Mapping[str, str], figure: Figure) -> None:
    for point in points:
        if point.get("curve"):
            steps, middle, low, high = zip(*point["curve"], strict=True)
            axis.plot(steps, middle, color=colours[point["row"]], label=point["row"])
            axis.fill_between(steps, low, high, color=colours[point["row"]], alpha=0.2)
    axis.set_xlabel("learner steps")


def _draw_curriculum(task: str, path: Path) -> None:
    """Draws a row of scenes for each level."""
    levels = get_task(task).levels
    states = [(level, start_in_set(task, level, "test", k)) for level in levels for k in range(5)]
    pictures = [without_sky(picture(state.scene, 200)) for _, state in states]
    save_png(contact_sheet(pictures, [f"level {level}" for level, _ in states], 5), path)


def _draw_built(figure: Figure, found: Found, path: Path) -> None:
    """Draws the final scenes of agents: a row of pictures (of ten: two rows) for each task, level and agent. If an entry has fewer scenes
    than its rows have pictures, the last pictures are empty. Captions give the reward and the reason why the episode ended."""
    count = 10 if figure.name in TEN else SHOWN
    pictures, captions = [], []
    for task in figure.tasks:
        for level in levels_of(figure, task):
            for _, row, entry in shown(figure, found, task, level):
                for index in range(min(count, entry.scenes)):
                    end = _end(entry, index)
                    pictures.append(without_sky(picture(end.scene, 240)))
                    captions.append(f"{row.label}\nR {entry.rewards[index]:.2f} · {(end.ended or '').replace('_', ' ')}")
                rest = max(count - entry.scenes, 0)
                pictures += [np.full_like(pictures[-1], 255)] * rest
                captions += [""] * rest
    save_png(contact_sheet(pictures, captions, min(count, 5)), path)


def shown(figure: Figure, found: Found, task: str, level: Level) -> list[tuple[str, Row, Entry]]:
    """Returns the agents to show in a task and level, as (name of the column, agent, entry of its best seed). Of all agents of a column
    only the best is shown. Without columns, all agents of the figure are shown, each with an empty column name."""
    columns = figure.columns or tuple(("", (row,)) for row in figure.rows)
    best = []
    for column, rows in columns:
        entries: list[tuple[float, str, Row, Entry]] = [
            (entry.reward, entry.agent, row, entry) for row in rows if task in row.tasks for entry in found.of(row, task, level).values()
        ]
        if entries:
            _, _, row, entry = max(entries, key=lambda each: each[:2])
            best.append((column, row, entry))
    return best


def levels_of(figure: Figure, task: str) -> list[Level]:
    """The levels of a figure, without generalisation levels that the task does not have."""
    return [each for each in figure.levels if not isinstance(each, str) or each in ("all", "hardest", *get_task(task).generalisation)]


def _end(entry: Entry, index: int) -> State:
    """Replays an episode of an entry and returns its final state."""
    start = start_in_set(entry.task, entry.level, entry.split, index)
    return [*Recording(start, entry.placements()[index], entry.zero_on_hit).replay()][-1].state


def write_films(found: Found, folder: Path) -> Iterator[Path]:
    """Writes the films of Table G.1: ten episodes for each task, level and column of the table. They are replays of the best agent of the
    column in the ledger. Yields the path of each film."""
    figure = FIGURES["tableG.1"]
    for task in figure.tasks:
        for level in levels_of(figure, task):
            for column, row, entry in shown(figure, found, task, level):
                make_folder(folder)  # only when there is something to film
                for index in range(min(FILMED, entry.scenes)):
                    start = start_in_set(task, entry.level, entry.split, index)
                    recording = Recording(start, entry.placements()[index], entry.zero_on_hit)
                    path = folder / f"{task}-{level}-{column.replace(' ', '-')}-{index}.mp4"
                    film(episode_frames(start, recording.replay(record=True), by=row.label), path)
                    yield path
