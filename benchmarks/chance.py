"""Rewards of uniformly random continuous actions, from which an actor-critic starts to learn.

python benchmarks/chance.py [--episodes 400] [--seed 0]
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import tyro

from trilith.utils.console import show, table_of
from trilith.world.actions import Continuous, make_codec
from trilith.world.episode import start, step
from trilith.world.tasks import TASKS


@dataclass
class Options:
    """Options of the benchmark."""

    episodes: int = 400
    """Episodes for each task, action space and level."""
    seed: int = 0


def main() -> None:
    """Plays the two easiest levels of every task and prints a table."""
    options = tyro.cli(Options, description=__doc__)
    table = table_of("task", "actions", "level", "mean reward", "episodes that earn", "most common end")
    for task in TASKS.values():
        for space in ("relative", "absolute"):
            codec = make_codec(f"continuous_{space}")
            assert isinstance(codec, Continuous)
            for level in task.levels[:2]:
                rng = np.random.default_rng(options.seed)
                totals, ends = [], Counter[str]()
                for _ in range(options.episodes):
                    state = start(task, level, rng)
                    while state.ended is None:
                        state = step(state, codec.decode(state.scene, rng.uniform(-1, 1, codec.length).tolist())).state
                    totals.append(state.total)
                    ends[state.ended] += 1
                earned = float(np.mean(np.array(totals) > 0))
                reason, count = ends.most_common(1)[0]
                end = f"{reason} {count / options.episodes:.0%}"
                table.add_row(task.name, space, str(level), f"{np.mean(totals):.3f}", f"{earned:.1%}", end)
    show(table)


if __name__ == "__main__":
    main()
