"""The report on the repetition of the paper, as a Markdown page: every figure drawn from the ledger, the values that the paper prints, and
a verdict on each claim.

`collect` computes all numbers of the page, rounded and in a fixed order, so that the same ledger gives the same bytes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trilith.evaluation.scene_sets import start_in_set
from trilith.evaluation.statistics import spread_of_seeds
from trilith.paper.claims import CLAIMS, Side, answer, compare_sides
from trilith.paper.figures import FIGURES, FOUR, LEGAL, Figure, Row, level_name
from trilith.paper.ledger import Entry, read_ledger
from trilith.paper.plan import Measurement, index, make_plan, make_run, measurement_seconds, measurements_of, run_seconds, runs_of
from trilith.paper.scales import SCALES, Scale
from trilith.utils.files import atomic_write
from trilith.world.actions import make_codec
from trilith.world.tasks import Level, get_task

PAGE, DATA, IMAGES = "paper_rerun.md", "paper_rerun.json", "images/paper"
Seeds = dict[int, Entry]
"""The entries of one agent in a task and level, by the seed of the training."""


class Found:
    """The entries of a ledger, grouped by measurement: all seeds of an agent in a task and level are together."""

    def __init__(self, entries: Sequence[Entry], scale: str) -> None:
        self.scale, self.how = scale, SCALES[scale]
        self._seeds: defaultdict[str, Seeds] = defaultdict(dict)
        for (what, seed), entry in sorted(index(entries).items()):
            self._seeds[what][seed] = entry

    def seeds(self, measurement: Measurement) -> Seeds:
        """The ledger entries for a measurement, by seed. Empty if there are none."""
        return self._seeds.get(measurement.key()[0], {})

    def of(self, row: Row, task: str, level: Level) -> Seeds:
        """The ledger entries of one agent of a figure (`Row`) in a task and level, by seed. Empty if the agent was not measured."""
        agent = make_run(row, self.scale, self.how, task, 0) if row.recipe else row.name
        return self.seeds(Measurement(agent, task, level if level == "all" else get_task(task).check_level(level), row.search, 1))

    def learned(self, entry: Entry, level: Level) -> bool:
        """Whether the agent of an entry earns more than random legal placements in the same scenes: the 95 % interval of the mean
        difference is above 0. False if random placements were not measured there."""
        chance = self.of(LEGAL, entry.task, level).get(0)
        if chance is None:
            return False
        shared = min(entry.scenes, chance.scenes)
        gain = np.array(entry.rewards[:shared]) - np.array(chance.rewards[:shared])
        return bool(gain.mean() - 1.96 * gain.std() / shared**0.5 > 0)

    def side(self, row: Row, task: str, level: Level) -> Side:
        """The measurements of an agent in a task and level, as one side of a comparison."""
        entries = self.of(row, task, level)
        if not row.recipe:
            error = max((float(np.std(entry.rewards)) / entry.scenes**0.5 for entry in entries.values()), default=0.0)
            return Side({seed: entry.reward for seed, entry in entries.items()}, 0, False, error)
        good = {seed: entry.reward for seed, entry in entries.items() if self.learned(entry, level)}
        return Side(good, len(entries) - len(good), True)


def collect(entries: Sequence[Entry], scale: str) -> dict[str, Any]:
    """All numbers of the page: `scale`, `answer` (a sentence), `claims` (a list with the verdicts) and `figures` (the points of each
    figure, by name)."""
    found = Found(entries, scale)
    figures = {figure.name: _points(figure, found) for figure in FIGURES.values()}
    claims = []
    for claim in CLAIMS:
        for task in claim.tasks:
            better, worse = (found.side(row, task, claim.level) for row in (claim.better, claim.worse))
            interval, verdict = compare_sides(better, worse)
            claims.append(
                {
                    **{"topic": claim.topic, "claim": claim.text, "where": claim.where, "task": task, "level": claim.level},
                    "seeds": [len(better.means), len(worse.means)],
                    "did_not_learn": [better.unlearned, worse.unlearned],
                    "difference": [_rounded(each) for each in interval] if interval else None,
                    "verdict": verdict,
                }
            )
    return {"scale": scale, "answer": answer(claims), "claims": claims, "figures": figures}


def _points(figure: Figure, found: Found) -> list[dict[str, Any]]:
    """The points of a figure: a dictionary for each agent, task and level that has entries in the ledger. Empty if only random legal
    placements have entries. Figures of the kind actions need no entries."""
    if figure.kind == "actions":
        return [_action_count(row, task) for task in figure.tasks for row in figure.rows]
    points = []
    for row, measurement in measurements_of(figure, found.scale, found.how, figure.tasks, 0):
        seeds = found.seeds(measurement)
        if not seeds:
            continue
        values = {seed: _value(figure, entry) for seed, entry in seeds.items()}
        trained = {seed: entry.training for seed, entry in seeds.items() if entry.training}
        points.append(
            {
                **{"row": row.label, "task": measurement.task, "level": measurement.level, "budget": row.search.budget},
                "scenes": min(entry.scenes for entry in seeds.values()),
                "seeds": {str(seed): _rounded(value) for seed, value in values.items()},
                "median_low_high": [_rounded(each) for each in spread_of_seeds([*values.values()])],
                "did_not_learn": sorted(seed for seed in trained if not found.learned(seeds[seed], measurement.level)),
                "levels_reached": [training.level for training in trained.values()],
                **({"curve": _curve([training.curve for training in trained.values()])} if figure.kind == "curves" else {}),
            }
        )
    return points if any(point["row"] != LEGAL.label for point in points) else []


def _value(figure: Figure, entry: Entry) -> float:
    return entry.reward if figure.metric == "reward" else 1 - entry.reasons.count("complete") / entry.scenes


def _curve(curves: Sequence[Sequence[tuple[int, float, float, float]]]) -> list[list[float]]:
    """The learning curve over several seeds, as a list of [learner step, median, minimum, maximum] of the reward on all levels. `curves`
    has one list per seed, see `Training.curve`. Only learner steps at which every seed was validated are included."""
    by_step = [{point[0]: point[3] for point in curve} for curve in curves]
    steps = sorted(set.intersection(*map(set, by_step))) if by_step else []
    return [[step, *map(_rounded, spread_of_seeds([curve[step] for curve in by_step]))] for step in steps]


def _action_count(row: Row, task: str) -> dict[str, Any]:
    """The point of Table D.1 for an action space and a task: the number of possible actions at the hardest level, after half of the maximum
    number of placements. The number of objects is the mean over a hundred test scenes."""
    rules = get_task(task)
    starts = [start_in_set(task, "hardest", "test", k) for k in range(100)]
    placed = [state.max_steps / 2 if rules.keeps_supply else 0 for state in starts]
    objects = round(float(np.mean([len(state.scene) + more for state, more in zip(starts, placed, strict=True)])))
    heights, widths = rules.grid
    count = int(np.prod(make_codec(row.name, heights=heights, widths=widths).space(objects).sizes))
    return {"row": row.label, "task": task, "level": "hardest", "budget": 0, "scenes": 100, "median_low_high": [count] * 3}


def _rounded(value: float) -> float:
    return round(value + 0.0, 4)


def data_text(data: Mapping[str, Any]) -> str:
    """The numbers of the page (the result of `collect`) as JSON text. The same ledger always gives the same text."""
    return json.dumps(data, indent=1, sort_keys=True, allow_nan=False) + "\n"


def write_report(ledger: Path, out: Path, scale: str = "laptop") -> Path:
    """Writes the page, its numbers and its pictures into the folder `out`, from the entries in the folder `ledger`. Returns the path of the
    page."""
    from trilith.paper.draw import draw_figure

    entries = read_ledger(ledger)
    data = collect(entries, scale)
    pictures = {
        name: path.name
        for name, figure in FIGURES.items()
        if draw_figure(figure, data["figures"][name], Found(entries, scale), path := out / IMAGES / f"{name}.png")
    }
    for path, text in ((out / DATA, data_text(data)), (out / PAGE, page(data, pictures, SCALES[scale], len(entries)))):
        with atomic_write(path) as aside:
            aside.write_text(text, encoding="utf-8")
    return out / PAGE


def page(data: Mapping[str, Any], pictures: Mapping[str, str], how: Scale, entries: int) -> str:
    """Returns the report as Markdown. `data` is the result of `collect`, `pictures` maps figures to names of picture files, `how` is the
    scale, and `entries` is the number of entries in the ledger."""
    scale = data["scale"]
    lines = [
        "# The paper, re-run",
        "",
        f"Made by `trilith reproduce --report --scale {scale}` from the {entries} entries of the [ledger](reference/ledger.md); "
        f"[{DATA}]({DATA}) has every number. {how.about} Rewards are means over frozen test scenes, and an episode that touches an "
        "obstacle earns nothing, as in the paper; the value of an agent is the median over its seeds, with the lowest and the highest.",
        "",
        f"**{data['answer']}**",
        "",
        "## Claim by claim",
        "",
        "A claim *agrees* or *disagrees* only where a 95 % interval over at least three seeds a side (Welch) excludes 0. The figures are "
        "the difference, its interval, and the number of seeds that learned on the two sides. A seed that does not beat random legal "
        "placements *did not learn here*, and is no evidence. –: not measured; empty: no claim.",
        "",
        *_claims_table(data["claims"]),
    ]
    for name, figure in FIGURES.items():
        lines += ["", f"## {_heading(name)}: {figure.title}", ""]
        lines += [f"![{figure.title}]({IMAGES}/{pictures[name]})", ""] if name in pictures else []
        lines += _table(figure, data["figures"][name])
        lines += [figure.note] if figure.note else []
        if not data["figures"][name] and figure.kind != "scenes":
            lines += ["", _what_it_takes(figure, scale, how)]
    return "\n".join(lines) + "\n"


def _claims_table(claims: Sequence[Mapping[str, Any]]) -> list[str]:
    """A Markdown table as a list of lines, with a row for each claim and level and a column for each task. `claims` is as `collect` makes
    it."""
    titles = " | ".join(get_task(task).title for task in FOUR)
    lines = [f"| claim | where | level | {titles} |", "|---|---|---|" + "---|" * len(FOUR)]
    rows: dict[tuple[str, str, Level], dict[str, str]] = {}
    for each in claims:
        rows.setdefault((each["claim"], each["where"], each["level"]), {})[each["task"]] = _verdict(each)
    for (claim, where, level), cells in rows.items():
        lines.append(f"| {claim} | {where} | {level} | {' | '.join(cells.get(task, '') for task in FOUR)} |")
    return lines


def _verdict(claim: Mapping[str, Any]) -> str:
    """The verdict on a claim in one task, with the evidence for it. "–" if nothing was measured."""
    learned, unlearned, interval = claim["seeds"], claim["did_not_learn"], claim["difference"]
    if not any((*learned, *unlearned)):
        return "–"
    shown = f"{interval[0]:+.2f} ({interval[1]:+.2f} to {interval[2]:+.2f}), " if interval else ""
    missing = f"; did not learn: {unlearned[0]} and {unlearned[1]}" if any(unlearned) else ""
    return f"*{claim['verdict']}*: {shown}{learned[0]} and {learned[1]} seeds{missing}"


def _heading(name: str) -> str:
    if name.startswith("table"):
        return f"Table {name.removeprefix('table')}"
    return {"n_rec": "§5.4", "A.2": "§A.2", "unsolved": "§E.2"}.get(name, f"Figure {name}")


def _table(figure: Figure, points: Sequence[Mapping[str, Any]]) -> list[str]:
    """A Markdown table as a list of lines, with a row for each agent, task and level that has a value in the paper or in the ledger. The
    list is empty if there is none."""
    here = {(point["row"], point["task"], level_name(point["task"], point["level"])): point for point in points}
    printed = {(each.row, each.task, level_name(each.task, each.level)): each for each in figure.printed}
    keys = [*here, *(key for key in printed if key not in here)]
    if not keys:
        return []
    lines = ["| agent | task | level | the paper | here | seeds, scenes | |", "|---|---|---|--:|--:|--:|---|"]
    for key in keys:
        row, task, level = key
        value, point = printed.get(key), here.get(key)
        paper = f"{value.value:g} ({value.what}, {value.where})" if value else ""
        ours = seeds = note = ""
        if point:
            middle, low, high = point["median_low_high"]
            count = len(point.get("seeds", ()))
            ours = f"{middle:,}" if figure.kind == "actions" else f"{middle:.2f}" + (f" ({low:.2f}–{high:.2f})" if count > 1 else "")
            seeds = f"{count}, {point['scenes']}" if count else ""
            if failed := point.get("did_not_learn"):
                note = f"did not learn here: {len(failed)} of {count} (reached level {max(point['levels_reached'])})"
        lines.append(f"| {row} | {get_task(task).title} | {level} | {paper} | {ours} | {seeds} | {note} |")
    return [*lines, ""]


def _what_it_takes(figure: Figure, scale: str, how: Scale) -> str:
    plan = make_plan([figure], scale, how, figure.tasks, how.seeds)
    runs = runs_of(plan)
    hours = (sum(map(run_seconds, runs)) + sum(map(measurement_seconds, plan))) / 3600
    return (
        f"No data yet. It takes {len(runs)} trainings and {len(plan)} evaluations, about {hours:.0f} hours of one core, fewer if other "
        f"figures share them: `trilith reproduce {figure.name} --scale {scale}`."
    )
