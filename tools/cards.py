"""The cards of the agents that come with trilith, for people: `python tools/cards.py` writes docs/reference/agents.md and its pictures.

Figures are those on the cards in trilith/zoo, which `tools/ship.py` measured. How an agent fails is looked at here: it plays the
first hardest test scenes once more, and what ended those that it did not complete is counted.
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
"""Hardest test scenes that an agent is looked at in."""
KINDS = 3
"""Of failures, the most frequent, that there are pictures of."""
AIMS = {
    "silhouette": {"all": 4.0, "hardest": 6.9, "searched": 7.3},
    "connecting": {"all": 2.85, "hardest": 2.5, "searched": 2.9},
    "covering": {"all": 4.6, "hardest": 6.6, "searched": 7.7},
    "covering_hard": {"all": 3.4, "hardest": 4.9, "searched": 5.1},
}
"""What `objects` was to reach: on all levels and on the hardest without search, and on the hardest with at most ten simulations."""
FEW = 10
"""Simulations per decision that aims with search are for, at most."""
PAPER = {
    "silhouette": {"all": "4.04", "all searched": "4.15", "hardest searched": "7.18 (best seed)"},
    "connecting": {"all": "2.84", "hardest": "2.17", "hardest searched": "2.72"},
    "covering": {"all": "3.96", "all searched": "4.65", "hardest searched": "7.18 (best seed)"},
    "covering_hard": {"all": "3.03", "hardest": "3.60", "hardest searched": "4.61 (budget 10)"},
}
"""Medians unless said: of GN-DQN with three recurrent steps, and of GN-DQN-MCTS where it searched."""
PLANNER = {"silhouette": 7.44, "connecting": 3.0, "covering": 7.93, "covering_hard": 5.17}
"""Hardest, first 500 test scenes."""
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
    """By kind, most frequent first: the scenes, and the ends of the episodes in them; and how many were not completed."""
    starts = [start_in_set(task, "hardest", "test", k) for k in range(SCENES)]
    found: defaultdict[str, list[tuple[int, State]]] = defaultdict(list)
    for k, (recording, end) in enumerate(play(agent, starts, [generator("cards", task, k) for k in range(SCENES)])):
        if end.ended != "complete":
            found[kind(recording, end)].append((k, end))
    return dict(sorted(found.items(), key=lambda each: -len(each[1]))), sum(map(len, found.values()))


def kind(recording: Recording, end: State) -> str:
    """What ended an episode that was not completed."""
    if end.ended == "obstacle_hit":
        new = recording.placements[-1]
        assert new is not None
        placed = [step.state.scene for step in recording.replay()]
        before = placed[-2] if len(placed) > 1 else recording.start.scene
        return "the new block touched an obstacle" if new_touches(before, end.scene) else "an older block touched an obstacle"
    return {"stopped": "stopped, expecting only to lose", "max_steps": "no steps or blocks left"}.get(str(end.ended), str(end.ended))


def new_touches(before: Scene, after: Scene) -> bool:
    """Whether the block that is in one scene and not in the other touches an obstacle there, or is the nearest to one."""
    blocks, obstacles = after.rows(Role.BLOCK), after.rows(Role.OBSTACLE)
    old = set(before.rows(Role.BLOCK).tolist())
    gaps = {int(b): min(gap(*after.pose[b], *after.size[b], *after.pose[o], *after.size[o]) for o in obstacles) for b in blocks}
    nearest = min(gaps, key=gaps.__getitem__)
    return any(g <= TOUCH and b not in old for b, g in gaps.items()) or nearest not in old


def draw_failures(name: str, task: str, kinds: dict[str, list[tuple[int, State]]]) -> Path:
    """The first scene of each of the most frequent kinds, as it ended."""
    shown = [(each, *found[0]) for each, found in list(kinds.items())[:KINDS]]
    captions = [f"{each}: scene {k}, {end.total:.2f} of {end.rules.best(end.scene):.2f}" for each, k, end in shown]
    out = DOCS / "images" / f"failures_{name}_{task}.png"
    save_png(contact_sheet([without_sky(picture(end.scene, 480)) for _, _, end in shown], captions, len(shown)), out)
    return out


def draw_curves(name: str, cards: dict[str, Card]) -> Path:
    """Learning curves against processor time, or minutes by the clock where that is not known."""
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
    """What the cost and the curve of a card are counted in."""
    return "core-minute" if "core_minutes" in card["cost"] else "minute"


def cost(card: Card) -> str:
    """What weights cost, in one line."""
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
    """The seeds of a card as a table; nothing if there is but one."""
    if len(card.get("seeds", ())) < 2:
        return []
    columns = [f"{each['level']}, {each['budget'] or 'no'} simulations" for each in card["seeds"][0]["test"]]
    lines = [f"| seed | core-minutes | {' | '.join(columns)} |", f"|--:|--:|{'--:|' * len(columns)}"]
    for each in sorted(card["seeds"], key=lambda seed: seed["seed"]):
        figures = " | ".join(f"{test['reward']:.2f} ± {test['interval']:.2f}" for test in each["test"])
        lines.append(f"| {each['seed']} | {each['cost']['core_minutes']:.0f} | {figures} |")
    return [*lines, ""]


def section(name: str, task: str, card: Card, agent: Any) -> str:
    """A card as text."""
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
    """Writes the page of one agent; that of any but `objects` has no introduction, and a file of its own."""
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
