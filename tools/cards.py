"""Makes a page of the cards of shipped agents: `python tools/cards.py` writes docs/reference/agents.md and its pictures.

Figures are those on the cards in trilith/zoo, which `tools/ship.py` measured. Only failures are measured here: the agent plays the first
hardest test scenes again, and the page counts why the episodes that were not completed ended.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from tyro.conf import Positional

from trilith.agents.registry import load, shipped
from trilith.agents.weights import Card, read_card
from trilith.evaluation.play import play
from trilith.evaluation.scene_sets import generator, start_in_set
from trilith.render.pictures import contact_sheet, picture, save_png, without_sky
from trilith.utils.files import atomic_write
from trilith.world.episode import Recording, State
from trilith.world.geometry.rectangles import TOUCH, gap
from trilith.world.scene import Role, Scene
from trilith.world.tasks import TASKS

DOCS = Path(__file__).resolve().parent.parent / "docs"
SCENES = 300
"""Number of hardest test scenes in which failures are counted."""
KINDS = 3
"""Number of kinds of failures that have a picture: the most frequent ones."""
AIMS = {
    "silhouette": {"all": 4.0, "hardest": 6.9, "searched": 7.3},
    "connecting": {"all": 2.85, "hardest": 2.5, "searched": 2.9},
    "covering": {"all": 4.6, "hardest": 6.6, "searched": 7.7},
    "covering_hard": {"all": 3.4, "hardest": 4.9, "searched": 5.1},
}
"""Mean rewards that `objects` aims at: without search on all levels and on the hardest, and with search on the hardest."""
FEW = 10
"""Largest budget of searches for which the aim `searched` holds."""
PAPER = {
    "silhouette": {"all": "4.04", "all searched": "4.15", "hardest searched": "7.18 (best seed)"},
    "connecting": {"all": "2.84", "hardest": "2.17", "hardest searched": "2.72"},
    "covering": {"all": "3.96", "all searched": "4.65", "hardest searched": "7.18 (best seed)"},
    "covering_hard": {"all": "3.03", "hardest": "3.60", "hardest searched": "4.61 (budget 10)"},
}
"""Rewards in the paper, medians unless said: GN-DQN with three recurrent steps; with "searched", GN-DQN-MCTS."""
PLANNER = {"silhouette": 7.44, "connecting": 3.0, "covering": 7.93, "covering_hard": 5.17}
"""Mean reward of the planner in the first 500 hardest test scenes."""
INTRO = """\
# The agents that come with trilith

`objects`, one set of weights for each task: it sees objects (pose, size, type, sticky, velocity), contacts, glue, steps left and a mask of
legal placements; it learned from its own play and from placements simulated beside its actions, never from the planner, which is
hand-made. Each card lists its seeds. How it learns, and what was tried, is in [`objects`](../explanation/objects.md).
`trilith evaluate objects --task TASK --budget N` plays it. `python tools/cards.py` wrote this page from the cards
beside the weights, which `python tools/ship.py` measured.

Rewards are means over the first frozen test scenes of a level, with 95 % intervals. *Forfeited*: if touching an obstacle takes back all
that an episode has earned, as the paper says; of agents that search it is not known, as they would then search otherwise. *Aimed at*:
what we set out to reach, without search and with at most ten simulations per decision. *Planner*:
`trilith evaluate planner --task TASK --scenes 500`. *Paper*: medians of its GN-DQN with three recurrent steps and, in rows with
search, its GN-DQN-MCTS, with budgets of its own. Its agents had no mask of legal placements, and its world is another simulator.

*Core-minutes* are processor time of all processes of a training together, whatever else the machine did. Steps of the simulator are all
that were learned from: those that were made, those simulated beside them, and those of corrections, of which `objects` has none.

Agents that see segmented images are on [a page of their own](../howto/pixels.md)."""


def failures(agent: Any, task: str) -> tuple[dict[str, list[tuple[int, State]]], int]:
    """Plays `SCENES` scenes. Returns the failures by kind, most frequent first, each as (scene, final state), and their number."""
    starts = [start_in_set(task, "hardest", "test", k) for k in range(SCENES)]
    found: defaultdict[str, list[tuple[int, State]]] = defaultdict(list)
    for k, (recording, end) in enumerate(play(agent, starts, [generator("cards", task, k) for k in range(SCENES)])):
        if end.ended != "complete":
            found[kind(recording, end)].append((k, end))
    return dict(sorted(found.items(), key=lambda each: -len(each[1]))), sum(map(len, found.values()))


def kind(recording: Recording, end: State) -> str:
    """The reason, in words, why an episode ended that was not completed."""
    if end.ended == "obstacle_hit":
        new = recording.placements[-1]
        assert new is not None
        placed = [step.state.scene for step in recording.replay()]
        before = placed[-2] if len(placed) > 1 else recording.start.scene
        return "the new block touched an obstacle" if new_touches(before, end.scene) else "an older block touched an obstacle"
    return {"stopped": "stopped, expecting only to lose", "max_steps": "no steps or blocks left"}.get(str(end.ended), str(end.ended))


def new_touches(before: Scene, after: Scene) -> bool:
    """Whether the block that only `after` has touches an obstacle, or is the block nearest to one."""
    blocks, obstacles = after.rows(Role.BLOCK), after.rows(Role.OBSTACLE)
    old = set(before.rows(Role.BLOCK).tolist())
    gaps = {int(b): min(gap(*after.pose[b], *after.size[b], *after.pose[o], *after.size[o]) for o in obstacles) for b in blocks}
    nearest = min(gaps, key=gaps.__getitem__)
    return any(g <= TOUCH and b not in old for b, g in gaps.items()) or nearest not in old


def draw_failures(name: str, task: str, kinds: dict[str, list[tuple[int, State]]]) -> Path:
    """Draws the first failure of each of the most frequent kinds. Returns the path of the picture."""
    shown = [(each, *found[0]) for each, found in list(kinds.items())[:KINDS]]
    captions = [f"{each}: scene {k}, {end.total:.2f} of {end.rules.best(end.scene):.2f}" for each, k, end in shown]
    out = DOCS / "images" / f"failures_{name}_{task}.png"
    save_png(contact_sheet([without_sky(picture(end.scene, 480)) for _, _, end in shown], captions, len(shown)), out)
    return out


def draw_curves(name: str, cards: dict[str, Card]) -> Path:
    """Draws learning curves over processor time, or over minutes if a card lacks it. Returns the path of the picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    drawn = {task: card for task, card in cards.items() if "curve" in card}  # those shipped earlier have none
    figure, axes = plt.subplots(1, len(drawn), figsize=(3.6 * len(drawn), 3), layout="constrained", squeeze=False)
    for axis, (task, card) in zip(axes[0], drawn.items(), strict=True):
        for each in sorted(card.get("seeds", [card]), key=lambda trained: trained["seed"]):
            spent, rewards = np.array(each["curve"]).T
            axis.plot(spent, rewards, marker=".", label=f"seed {each['seed']}")
        axis.axhline(PLANNER[task], color="grey", linestyle="--", label="planner")
        if name == "objects":
            axis.axhline(AIMS[task]["hardest"], color="tab:green", linestyle=":", label="aim")
        axis.set(title=TASKS[task].title, xlabel=unit(card) + "s", ylim=(0, 1.06 * PLANNER[task]))
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("hardest validation scenes")
    max(axes[0], key=lambda axis: len(axis.lines)).legend(fontsize="small", loc="lower right")  # the panel that names every seed
    out = DOCS / "images" / f"learning_{name}.png"
    with atomic_write(out) as aside:
        figure.savefig(aside, dpi=110)
    plt.close(figure)
    return out


def unit(card: Card) -> str:
    """The unit of the cost and of the learning curve of a card."""
    return "core-minute" if "core_minutes" in card["cost"] else "minute"


def cost(card: Card) -> str:
    """The cost of the training, in one line."""
    spent = card["cost"]
    processes = f"{spent['processes']} process{'es' if spent['processes'] > 1 else ''}"
    minutes = f"{spent['minutes']:.0f} minutes by the clock"
    if "core_minutes" in spent:
        minutes = f"**{spent['core_minutes']:.0f} core-minutes** ({minutes})"
    text = f"{minutes}, {processes}. "
    if "seeds" in card:
        several = f", the median of {len(card['seeds'])} by the reward on the hardest level" if len(card["seeds"]) > 1 else " only"
        text += f"Final weights; seed {card['seed']}{several}."
    else:
        text += f"The weights are those of {unit(card)} {spent['kept']:.0f}, the best on validation scenes. One seed."
    if "simulated" in spent:
        made, beside, corrections = (spent["simulated"][name] for name in ("made", "counterfactual", "corrections"))
        text += f" Steps of the simulator: {made + beside + corrections:,}, of which {made:,} were made, {beside:,} simulated beside them, "
        text += f"and {corrections:,} of corrections."
    return text


def rows(name: str, task: str, card: Card) -> list[str]:
    """A card's figures as lines of a table."""
    lines = [
        "| level | simulations per decision | scenes | reward | forfeited | solved | aimed at | planner | paper |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for each in card["test"]:
        level, budget = each["level"], each["budget"]
        key = "searched" if level == "hardest" and 0 < budget <= FEW else level if not budget else ""
        aim, paper = AIMS[task].get(key) if name == "objects" else None, PAPER[task].get(f"{level} searched" if budget else level, "")
        planner = f"{PLANNER[task]:.2f}" if level == "hardest" else ""
        forfeited = f"{each['forfeited']:.2f}" if "forfeited" in each else ""
        figures = f"**{each['reward']:.2f}** ± {each['interval']:.2f} | {forfeited} | {each['solved']:.1%}"
        search = f"{budget}, `{each['algorithm']}`" if "algorithm" in each else str(budget or "none")
        lines.append(f"| {level} | {search} | {each['scenes']:,} | {figures} | {aim or ''} | {planner} | {paper} |")
    return lines


def seed_rows(card: Card) -> list[str]:
    """The seeds of a card as lines of a table; empty if there is only one."""
    if len(card.get("seeds", ())) < 2:
        return []
    columns = [f"{each['level']}, {each['budget'] or 'no'} simulations" for each in card["seeds"][0]["test"]]
    lines = [f"| seed | core-minutes | {' | '.join(columns)} |", f"|--:|--:|{'--:|' * len(columns)}"]
    for each in sorted(card["seeds"], key=lambda seed: seed["seed"]):
        figures = " | ".join(f"{test['reward']:.2f} ± {test['interval']:.2f}" for test in each["test"])
        lines.append(f"| {each['seed']} | {each['cost']['core_minutes']:.0f} | {figures} |")
    return [*lines, ""]


def section(name: str, task: str, card: Card, agent: Any) -> str:
    """The section of the page about one task."""
    kinds, lost = failures(agent, task)
    image = draw_failures(name, task, kinds)
    counted = "; ".join(f"{each} ({len(found)})" for each, found in kinds.items())
    return "\n".join(
        [
            f"## {TASKS[task].title}",
            "",
            f"    {card['command']} --out runs/{task}-{card['recipe']}",
            "",
            f"Commit {card.get('commit', 'unknown')}, physics {card['physics']}. {cost(card)}",
            "",
            *rows(name, task, card),
            "",
            *seed_rows(card),
            f"Not completed: {lost} of the first {SCENES} hardest test scenes: {counted}.",
            "",
            f"![The first scene of each of the most frequent kinds](../images/{image.name})",
            "",
        ]
    )


def main(name: Positional[str] = "objects") -> None:
    """Writes the page of one agent: agents.md for `objects`, agents_NAME.md without introduction for another."""
    if not shipped(name):
        raise SystemExit(f"there are no weights of {name} in trilith/zoo")
    cards = {task: read_card(path) for task, path in shipped(name).items()}
    cards = {task: cards[task] for task in TASKS if task in cards}
    agent = load(name)
    curves = f"![Learning curves](../images/{draw_curves(name, cards).name})"
    intro, file = (INTRO, "agents.md") if name == "objects" else (f"# The agent {name}", f"agents_{name}.md")
    out = DOCS / "reference" / file
    text = "\n\n".join([intro, curves, *(section(name, task, card, agent).rstrip() for task, card in cards.items())])
    with atomic_write(out) as aside:
        aside.write_text(text + "\n", encoding="utf-8")
    print(out)


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
