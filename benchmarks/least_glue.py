"""The highest reward in Silhouette: the least glue that completes each of the first hardest test scenes.

    python benchmarks/least_glue.py [--scenes 300] [--results results/x.json …]

In Silhouette there are as many steps as targets, so a scene is completed only if every block fills a target. The reward then depends only
on the number of sticky blocks, which cost 0.5 each. This benchmark searches all orders and all choices of sticky blocks in the simulator,
those with less glue first. It does so twice: with each block on the middle of its target, and also with random shifts that still fill the
target. Not all shifts are tried, so the result is a lower bound: with `--states 20 --shifts 5 --simulations 100000` it is 7.58 instead of
7.57 in the first 30 scenes, for six times the time.

`--results`: evaluations of the same scenes (`trilith evaluate … --out x.json`), to compare scene by scene.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from trilith.evaluation.scene_sets import start_in_set
from trilith.utils.console import Progress
from trilith.utils.files import read_json
from trilith.world.actions import CLEARANCE
from trilith.world.episode import State, step
from trilith.world.scene import SLOT_WIDTHS, Placement, Role
from trilith.world.tasks.task import SPACING, layer_y

FILLS = 0.085
"""Maximum shift of a block from the middle of its target, as a share of its width. 90 % must overlap, and stacked blocks rest a bit low."""


@dataclass
class Options:
    """Options of the benchmark."""

    scenes: int = 300
    """Number of hardest test scenes, from the first."""
    states: int = 8
    """Maximum number of states that are expanded with the same targets filled and the same blocks sticky; without shifts: 1."""
    shifts: int = 2
    """Number of random shifts that are tried for each block."""
    simulations: int = 50_000
    """Maximum number of placements that are tried in a scene."""
    results: tuple[Path, ...] = ()
    """Evaluations of the same scenes."""


def least(state: State, states: int, shifts: int, simulations: int, rng: np.random.Generator) -> float | None:
    """The return with the least glue that completes the scene; None if nothing completes it within `simulations`."""
    targets = [tuple(map(float, (*state.scene.pose[row, :2], state.scene.size[row, 0]))) for row in state.scene.rows(Role.TARGET)]
    slots = [int(np.argmin(np.abs(np.asarray(SLOT_WIDTHS) - width))) for _, _, width in targets]
    below = [
        [j for j, (x2, y2, w2) in enumerate(targets) if abs(y - y2 - SPACING) < SPACING / 2 and abs(x - x2) < (w + w2) / 2]
        for x, y, w in targets
    ]
    number = count()
    ways = [(0, 0, 0.0, next(number), frozenset[int](), frozenset[int](), state)]
    """Heap of (sticky blocks, −filled targets, random number, unique number, filled targets, targets with a sticky block, state)."""
    followed: Counter[tuple[frozenset[int], frozenset[int]]] = Counter()
    tried = 0
    while ways and tried < simulations:
        glue, _, _, _, full, sticky, now = heapq.heappop(ways)
        if len(full) == len(targets):
            return now.total
        if followed[full, sticky] == states:
            continue
        followed[full, sticky] += 1
        for k, (x, y, width) in enumerate(targets):
            if k in full or (y > layer_y(0) + SPACING / 2 and full.isdisjoint(below[k])):
                continue
            for place in (0.0, *rng.uniform(-FILLS, FILLS, shifts)):
                for more in (False, True):
                    after = step(now, Placement(slots[k], x + width * place, y + CLEARANCE, more)).state
                    tried += 1
                    if after.ended in (None, "complete") and abs(after.total - (len(full) + 1 - (glue + more) / 2)) < 1e-6:
                        next_full, next_sticky = full | {k}, sticky | {k} if more else sticky
                        heapq.heappush(ways, (glue + more, -len(next_full), rng.random(), next(number), next_full, next_sticky, after))
    return None


def main() -> None:
    """Searches all scenes and prints the table."""
    options = tyro.cli(Options, description=__doc__)
    known = {path.stem: read_json(path)["rewards"][: options.scenes] for path in options.results}
    found: dict[str, list[float]] = {"on the middle of targets": [], "anywhere in targets": []}
    with Progress("least glue", options.scenes) as progress:
        for index in range(options.scenes):
            state = start_in_set("silhouette", "hardest", "test", index)
            best = 0.0  # with shifts there is no less to earn, though it may not be found in time
            for earned, (states, shifts) in zip(found.values(), ((1, 0), (options.states, options.shifts)), strict=True):
                best = max(best, least(state, states, shifts, options.simulations, np.random.default_rng(index)) or 0.0)
                earned.append(best)
            progress.add(1, "")
    most = np.max([*found.values(), *known.values()], axis=0)
    table = Table("first hardest test scenes of Silhouette", "scenes", "reward", "completed here", "falls short of the best of all rows")
    for name, rewards in (found | known).items():
        short, here = most - np.asarray(rewards), f"{np.mean(np.asarray(rewards) > 0):.1%}" if name in found else ""
        table.add_row(name, str(len(rewards)), f"{np.mean(rewards):.3f}", here, f"{short.mean():.3f}, in {np.mean(short > 1e-6):.0%}")
    table.add_row("the best of all rows", str(len(most)), f"{most.mean():.3f}", "", "")
    Console().print(table)


if __name__ == "__main__":
    main()
