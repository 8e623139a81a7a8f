"""Many random episodes: `python benchmarks/episodes.py [episodes]` counts why they ended and watches memory.

Actions are random ones of all action spaces, and legal relative ones, in all tasks and levels. Fails if anything raises, or if a state or
a reward is not finite.
"""

from __future__ import annotations

import resource
from collections import Counter

import numpy as np
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table
from tyro.conf import Positional

from trilith.agents.random_agents import LegalAgent
from trilith.world.actions import CODECS
from trilith.world.episode import REASONS, State, start, step
from trilith.world.scene import Placement
from trilith.world.tasks import TASKS, Level

LEGAL = LegalAgent()


def act(state: State, space: str, rng: np.random.Generator) -> Placement | None:
    """A random placement of an action space; for the space `legal`, a random legal one."""
    if space == "legal":
        return LEGAL.act([state], [rng])[0]
    codec = CODECS[space]()
    return codec.decode(state.scene, codec.space(len(state.scene)).sample(rng))


def memory() -> float:
    """Maximum memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(count: Positional[int] = 10_000) -> None:
    """Plays `count` episodes and prints the table."""
    rng = np.random.default_rng(0)
    spaces = [*CODECS, "legal"]
    reasons: dict[str, Counter[str]] = {space: Counter() for space in spaces}
    steps: Counter[str] = Counter()
    marks = []
    for number in track(range(count), "episodes"):
        space = spaces[number % len(spaces)]
        task = list(TASKS.values())[number // len(spaces) % len(TASKS)]
        levels: list[Level] = ["all", *task.levels, *task.generalisation]
        state = start(task, levels[int(rng.integers(len(levels)))], rng)
        while not state.ended:
            state, reward, _ = step(state, act(state, space, rng))
            steps[space] += 1
            if not (np.isfinite(state.scene.pose).all() and np.isfinite(state.scene.velocity).all() and np.isfinite(reward)):
                raise SystemExit(f"not finite: episode {number}, {state.task}, {space}")
        reasons[space][state.ended] += 1
        if number in (count // 4, count // 2, count - 1):
            marks.append(memory())
    table = Table(title=f"{count} episodes, {sum(steps.values())} steps")
    for column in ("actions", "steps an episode", *REASONS):
        table.add_column(column, justify="right")
    for space in spaces:
        episodes = max(sum(reasons[space].values()), 1)
        table.add_row(space, f"{steps[space] / episodes:.2f}", *(str(reasons[space][reason]) for reason in REASONS))
    Console(width=150).print(table)
    print("memory in MB after a quarter, half and all: " + ", ".join(f"{mark:.1f}" for mark in marks))


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
