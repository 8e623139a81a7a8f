"""Writes a report from result files of `trilith evaluate`: tables and figures, with the paper's results for comparison."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from trilith.agents.registry import short_names
from trilith.evaluation.schema import read_result
from trilith.evaluation.statistics import spread_of_seeds
from trilith.search.config import SearchConfig
from trilith.utils.checks import require
from trilith.utils.files import atomic_write
from trilith.utils.seeds import run_and_seed
from trilith.world.episode import REASONS, physics_from_json
from trilith.world.physics import PHYSICS
from trilith.world.tasks import TASKS, Task, get_task

Result = dict[str, Any]
Draw = Callable[[list[Result], dict[str, str], Any], None]
"""A function that draws the results of one task. Its arguments are the results, the colour of each agent, and the matplotlib axes to draw
on. It leaves the axes empty if there is nothing to draw."""

PAPER: dict[str, dict[str, tuple[float | None, float | None]]] = {
    "paper: script": {"silhouette": (3.42, 5.27), "covering": (3.85, 5.31)},
    "paper: GN-DQN (median)": {
        "silhouette": (4.04, None), "connecting": (2.84, 2.17), "covering": (3.96, None), "covering_hard": (3.03, 3.60),
    },
    "paper: GN-DQN-MCTS (best seed or median)": {
        "silhouette": (4.15, 7.18), "connecting": (None, 2.72), "covering": (4.65, 7.18), "covering_hard": (None, 4.61),
    },
}  # fmt: skip
"""The paper's mean rewards by agent and task, as (level all, hardest level). None if neither the paper's text nor its figures give a
number."""


def load_results(folder: Path) -> list[Result]:
    """Reads all results in a folder, and sorts them by agent. Leaves out results of a task that cannot be imported. Raises ValueError if
    nothing is left, if a result is damaged, or if the results are from different versions of the scenes.

    Each result gets a new field "plain": the agent's short name without seed, with a mark if the result is from other physics or was
    measured with `zero_on_hit`. "agent" becomes the value of "plain", followed by the options of the search if there was one. "seed"
    becomes the pair (seed of the training, seed of the evaluation).
    """
    require(folder.is_dir(), f"{folder} is not a folder with results of trilith evaluate")
    paths = sorted(folder.glob("[!.]*.json"))  # files whose names begin with a dot are still being written
    results = [result for path in paths if (result := read_result(path)) and _is_task(result["task"])]
    require(results, f"{folder} has no result of trilith evaluate")
    versions = sorted({result["version"] for result in results})
    require(len(versions) == 1, f"{folder} has results on different versions of the test scenes: {versions}")
    names = short_names({run_and_seed(result["agent"])[0] for result in results})
    for result in results:
        run, trained = run_and_seed(result["agent"])
        physics = physics_from_json(result)
        marks = {f"physics {physics}": physics != PHYSICS, "zero on hit": result["zero_on_hit"]}  # not comparable, so another row
        result["plain"] = names[run] + "".join(f" ({mark})" for mark, given in marks.items() if given)
        result["seed"] = (trained, result["seed"])
        search = ", ".join([str(_budget(result)), *_unusual(result)])
        result["agent"] = f"{result['plain']} (search {search})" if result["search"] else result["plain"]
    return sorted(results, key=lambda result: (result["plain"], _budget(result), result["task"], str(result["level"]), result["seed"]))


def _is_task(name: str) -> bool:
    try:
        return bool(get_task(name))
    except ValueError:  # a task of the user that cannot be imported from here
        return False


def _tasks(results: list[Result]) -> dict[str, Task]:
    """Maps names to the tasks of the report: the paper's tasks, then the user's own tasks that have results."""
    return TASKS | {name: get_task(name) for name in sorted({result["task"] for result in results})}


def _budget(result: Result) -> int:
    return result["search"]["budget"] if result["search"] else 0


def _unusual(result: Result) -> list[str]:
    """The search options of a result that differ from the defaults, each as "name value". The budget is left out."""
    usual = asdict(SearchConfig())
    return [f"{name} {value}" for name, value in (result["search"] or {}).items() if name != "budget" and value != usual.get(name)]


def write_report(folder: Path, out: Path) -> Path:
    """Writes report.md and its figures to the folder `out`, from the results in `folder`. Returns the path of report.md."""
    results = load_results(folder)
    text = ["# Results\n", _reward_table(results)]
    figures: list[tuple[str, str, Draw]] = [
        ("rewards", "Mean reward: median over seeds, with the range from the lowest to the highest seed.", _draw_rewards),
        ("reasons", "Why episodes ended, hardest scenes, over all seeds.", _draw_reasons),
        (
            "budgets",
            "Mean reward on hardest scenes against simulations per decision; grey lines: raw search, nothing expected.",
            _draw_budgets,
        ),
        ("levels", "Share of the most there is to earn by level, in the curriculum and beyond; the median over seeds.", _draw_levels),
    ]
    for name, caption, draw in figures:
        drawn = _figure(out / f"{name}.png", results, draw)
        text += [f"## {caption}\n", f"![{caption}]({name}.png)\n" if drawn else "No data for this figure yet.\n"]
    text += ["## Every result\n", _every_result(results)]
    with atomic_write(out / "report.md") as aside:
        aside.write_text("\n".join(text), encoding="utf-8")
    return out / "report.md"


def _cells(results: list[Result]) -> dict[tuple[str, str, str], list[Result]]:
    """Maps (agent, task, "all" or "hardest") to the results on test scenes of this level, one for each seed. If a seed has several results,
    the one with the most scenes is kept. Other levels are left out."""
    by_size = sorted(_tested(results), key=lambda result: result["episodes"])
    largest = {(result["agent"], result["task"], result["level"], result["seed"]): result for result in by_size}
    cells: dict[tuple[str, str, str], list[Result]] = defaultdict(list)
    for (agent, task, level, _), result in largest.items():
        if level in ("all", get_task(task).levels[-1]):
            cells[agent, task, "all" if level == "all" else "hardest"].append(result)
    return cells


def _tested(results: list[Result]) -> list[Result]:
    """The results on test scenes."""
    return [result for result in results if result["split"] == "test"]


def _rewards(cells: dict[tuple[str, str, str], list[Result]], agent: str, task: str) -> list[list[float]]:
    """The mean rewards of an agent in a task as two lists: for the level all, and for the hardest level. Each has one entry per seed, and
    is empty if the level was not measured. `cells` is the result of `_cells`."""
    return [[result["reward"] for result in cells.get((agent, task, kind), [])] for kind in ("all", "hardest")]


def _reward_table(results: list[Result]) -> str:
    cells, tasks = _cells(results), _tasks(results)
    lines = [
        "| agent | " + " | ".join(f"{task.title} all | hardest" for task in tasks.values()) + " |",
        "|---|" + "--:|--:|" * len(tasks),
    ]
    rows = {
        agent: [_median_and_range(rewards) for task in tasks for rewards in _rewards(cells, agent, task)]
        for agent in _colours(results)
        if any(agent == each for each, _, _ in cells)
    }
    rows |= {
        f"*{name}*": [f"{value:.2f}" if value is not None else "–" for task in tasks for value in figures.get(task, (None, None))]
        for name, figures in PAPER.items()
    }
    lines += [f"| {name} | " + " | ".join(row) + " |" for name, row in rows.items()]
    return (
        "\n".join(lines) + f"\n\nMean reward over frozen test scenes, version {results[0]['version']}; the median over seeds where there "
        "are several, with their range. *All* is the training mix, *hardest* the last level. *Zero on hit*: an episode that touches an "
        "obstacle earns nothing, the paper's rule. Rows in italics are the paper's, on its own simulator.\n"
    )


def _median_and_range(rewards: list[float]) -> str:
    if not rewards:
        return "–"
    middle, low, high = spread_of_seeds(rewards)
    return f"{middle:.2f} ({low:.2f}–{high:.2f})" if len(rewards) > 1 else f"{middle:.2f}"


def _every_result(results: list[Result]) -> str:
    lines = ["| agent | task | level | scenes | reward | of the most | solved | blocks | sticky |", "|---|---|---|--:|--:|--:|--:|--:|--:|"]
    for r in results:
        seeds = zip(("trained with seed", "seed"), r["seed"], strict=True)
        seed = "".join(f" ({what} {n})" for what, n in seeds if n)
        interval = f" ± {r['interval']:.3f}" if r["interval"] is not None else ""
        lines.append(
            f"| {r['agent']}{seed} | {r['task']} | {r['level']} | {r['episodes']} {r['split']} "
            f"| {r['reward']:.3f}{interval} | {r['share']:.0%} | {r['solved']:.0%} | {r['blocks']:.1f} | {r['glue']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def _figure(path: Path, results: list[Result], draw: Draw) -> bool:
    """Draws a figure with one panel per task, each by a call of `draw`. Writes it to `path`, and returns True. If there is nothing to draw,
    removes the file and returns False."""
    from matplotlib.figure import Figure

    tasks = _tasks(results)
    figure = Figure(figsize=(4.2 * len(tasks), 4.2), layout="constrained")
    panels = figure.subplots(1, len(tasks))
    colours = _colours(results)  # an agent has the same colour in all panels, whichever agents a panel shows
    for panel, task in zip(panels, tasks.values(), strict=True):
        panel.set_title(task.title)
        panel.spines[["top", "right"]].set_visible(False)
        draw([result for result in results if result["task"] == task.name], colours, panel)
        if not panel.has_data():
            panel.set_axis_off()
            panel.text(0.5, 0.5, "no data yet", ha="center", va="center", transform=panel.transAxes, color="grey")
    handles = {label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    if not handles:
        path.unlink(missing_ok=True)
        return False
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 7), frameon=False)
    with atomic_write(path) as aside:
        figure.savefig(aside, dpi=110)
    return True


_COLOURS = ("#3b6fb6", "#e08a2c", "#5a9e5a", "#b2484c", "#7d5fa8", "#7a6a5d", "#c77ab0", "#888888")


def _colours(results: list[Result]) -> dict[str, str]:
    """Maps each agent to its colour. The order of the keys is the order in tables and figures. Random, legal, scripted and planner come
    first, then the other agents by name. An agent with search follows the same agent without search, in order of budget."""
    order = {name: rank for rank, name in enumerate(("random", "legal", "scripted", "planner"))}
    names = {(order.get(r["plain"], len(order)), r["plain"], _budget(r), r["agent"]) for r in results}
    names |= {(order.get(r["plain"], len(order)), r["plain"], 0, r["plain"]) for r in results}
    ordered = [name for *_, name in sorted(names)]
    plain = {r["plain"] for r in results}  # agents without search come first, so that at least their colours differ
    colours = {name: _COLOURS[k % len(_COLOURS)] for k, name in enumerate(sorted(ordered, key=lambda name: name not in plain))}
    return {name: colours[name] for name in ordered}


def _draw_rewards(results: list[Result], colours: dict[str, str], panel: Any) -> None:
    cells = _cells(results)
    if not cells:
        return
    agents, task = [agent for agent in colours if any(agent == each for each, _, _ in cells)], results[0]["task"]
    width = 0.8 / len(agents)
    for k, agent in enumerate(agents):
        for x, rewards in enumerate(_rewards(cells, agent, task)):
            if not rewards:
                continue
            middle, at = median(rewards), x + (k - (len(agents) - 1) / 2) * width
            panel.bar(at, middle, width * 0.9, color=colours[agent], label=agent)
            panel.text(at, max(0, *rewards), f"{middle:.2f}", ha="center", va="bottom", fontsize=7)
            if len(rewards) > 1:
                panel.errorbar(at, middle, [[middle - min(rewards)], [max(rewards) - middle]], color="black", capsize=3)
    for (name, figures), style in zip(PAPER.items(), (":", "--", "-"), strict=True):
        for x, value in enumerate(figures.get(task, (None, None))):
            if value is not None:
                panel.hlines(value, x - 0.45, x + 0.45, color="black", linewidth=1, linestyle=style, label=name)
    panel.axhline(0, color="black", linewidth=0.5)
    panel.set(xticks=[0, 1], xticklabels=["all", "hardest"], ylabel="mean reward")


_REASON_COLOURS = ("#bbbbbb", "#999999", "#e08a2c", "#c77ab0", "#b2484c", "#5a9e5a", "#3b6fb6", "#000000")


def _draw_reasons(results: list[Result], colours: dict[str, str], panel: Any) -> None:
    cells = {agent: found for (agent, _, which), found in _cells(results).items() if which == "hardest"}
    if not cells:
        return
    names = [name for name in colours if name in cells]
    left = [0.0] * len(names)
    for reason, colour in zip(REASONS, _REASON_COLOURS, strict=True):
        shares = [fmean(result["reasons"].get(reason, 0) / result["episodes"] for result in cells[name]) for name in names]
        panel.barh(names, shares, left=left, color=colour, label=reason.replace("_", " "))
        left = [a + b for a, b in zip(left, shares, strict=True)]
    panel.invert_yaxis()
    panel.set(xlim=(0, 1), xlabel="share of episodes")


def _draw_budgets(results: list[Result], colours: dict[str, str], panel: Any) -> None:
    found: dict[str, dict[str, dict[int, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for result in [each for (_, _, which), cell in _cells(results).items() if which == "hardest" for each in cell]:
        other = "".join(f", {each}" for each in _unusual(result))
        found[result["plain"]][other][_budget(result)].append(result["reward"])
    for kinds in found.values():
        if without_search := kinds[""].get(0):  # without search, the options make no difference
            for budgets in kinds.values():
                budgets[0] = without_search
    if not any(len(budgets) > 1 for kinds in found.values() for budgets in kinds.values()):
        return
    for plain, kinds in sorted(found.items()):
        for number, (other, budgets) in enumerate(sorted(kinds.items())):
            medians = {budget: median(rewards) for budget, rewards in sorted(budgets.items())}
            if plain == "legal":
                for budget in filter(None, medians):  # a larger budget has a more solid line, the same in all panels
                    gap = max(4 - len(str(budget)), 0)
                    line = (0, (4, gap)) if gap else "-"
                    panel.axhline(medians[budget], color="grey", linestyle=line, linewidth=1, label=f"raw search {budget}{other}")
            elif len(medians) > 1:
                style = ("o-", "s--", "^:", "D-.")[number % 4]
                panel.plot(list(medians), list(medians.values()), style, color=colours[plain], markersize=4, label=plain + other)
    panel.set_xscale("symlog", linthresh=1, linscale=0.3)
    ticks = [0, 1, 2, 5, 10, 20, 50, 100]
    # Lines across the whole panel would extend its axis to negative numbers.
    panel.set(xlim=(-0.2, 130), xticks=ticks, xticklabels=map(str, ticks), xlabel="simulations per decision", ylabel="mean reward")


def _draw_levels(results: list[Result], colours: dict[str, str], panel: Any) -> None:
    results = _tested(results)
    if not results:
        return
    task = get_task(results[0]["task"])
    # Names need more room than numbers.
    axis = {str(level): float(k) for k, level in enumerate(task.levels)}
    axis |= {name: len(task.levels) + 0.8 + 2.2 * k for k, name in enumerate(task.generalisation)}
    for agent, colour in colours.items():
        largest: dict[str, dict[tuple[int, int], tuple[int, float]]] = defaultdict(dict)  # episodes and fraction, by level and seed
        for result in results:
            for level, each in result["by_level"].items() if result["agent"] == agent else ():
                if each["episodes"] > largest[level].get(result["seed"], (0, 0))[0]:
                    largest[level][result["seed"]] = each["episodes"], each["reward"] / each["most"] if each["most"] else 0.0
        shares = {level: median(share for _, share in seeds.values()) for level, seeds in largest.items()}
        inside = [(axis[level], shares[level]) for level in axis if level in shares and level not in task.generalisation]
        outside = [(axis[level], shares[level]) for level in axis if level in shares and level in task.generalisation]
        if shares:
            panel.plot(*np.reshape(inside, (-1, 2)).T, "o-", color=colour, label=agent, markersize=4)
            panel.plot(*np.reshape(outside, (-1, 2)).T, "D", color=colour, markersize=6)
    panel.set_xticks(list(axis.values()), [level.replace("_", "\n") for level in axis], fontsize=8)
    panel.axhline(0, color="black", linewidth=0.5)
    panel.set(xlabel="level (diamonds: generalisation)", ylabel="share of the most to earn")
    panel.set_ylim(top=1.02)
