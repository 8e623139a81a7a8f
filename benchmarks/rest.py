"""How blocks come to rest in this engine: `python benchmarks/rest.py [SCENES]` prints what `SPACING` in tasks/task.py is chosen by.

- Where the centres of stacked blocks lie, each placed 0.04 m above its target and left to settle before the next; and how
  much of its target the topmost (in six layers, the one with the most to go wrong) overlaps.
- How many targets of generated silhouettes are filled when every one is given its block from the bottom up, sticky, with the
  obstacles taken away: what glue, which bends a little under a heavy overhang, leaves possible.
"""

from __future__ import annotations

import sys

import numpy as np
from rich.console import Console
from rich.table import Table

from trilith.world.actions import CLEARANCE
from trilith.world.physics import settle
from trilith.world.scene import BLOCK_HEIGHT, LARGE, MEDIUM, SLOT_WIDTHS, SMALL, Placement, Role, Scene, fresh_scene, place
from trilith.world.tasks import TASKS
from trilith.world.tasks.silhouette import filled
from trilith.world.tasks.task import layer_y

Piece = tuple[float, float, float]
"""x, y and width of a target."""


def tower(*layers: list[tuple[float, float]]) -> list[Piece]:
    """Targets layer by layer, from the (x, width) of each."""
    return [(x, layer_y(k), width) for k, layer in enumerate(layers) for x, width in layer]


TOWERS: dict[str, list[Piece]] = {
    "six small": tower(*[[(0.0, SMALL)]] * 6),
    "six medium": tower(*[[(0.0, MEDIUM)]] * 6),
    "six large": tower(*[[(0.0, LARGE)]] * 6),
    "five large on a small": tower([(0.0, SMALL)], *[[(0.0, LARGE)]] * 5),
    "seven large on a small": tower([(0.0, SMALL)], *[[(0.0, LARGE)]] * 3, *[[(-1.925, LARGE), (1.925, LARGE)]] * 2),
}
"""The last is the heaviest that eight targets can be, and stands only with glue."""


def build(targets: list[Piece], sticky: bool) -> Scene:
    """The scene after each target was given its block, in order."""
    scene = fresh_scene([(x, y, width, BLOCK_HEIGHT) for x, y, width in targets], [])
    for x, y, width in targets:
        scene = settle(place(scene, Placement(SLOT_WIDTHS.index(width), x, y + CLEARANCE, sticky), keep=True)).scene
    return scene


def towers() -> Table:
    """Where the blocks of a few towers rest."""
    table = Table(title="heights of the centres of stacked blocks, placed one after another")
    table.add_column("tower")
    table.add_column("glue")
    for layer in range(6):
        table.add_column(f"layer {layer}\n({layer_y(layer):.2f})", justify="right")
    table.add_column("top overlaps\nits target by", justify="right")
    for name, targets in TOWERS.items():
        for sticky in (False, True):
            scene = build(targets, sticky)
            want, have = scene.pose[scene.rows(Role.TARGET)], scene.pose[scene.rows(Role.BLOCK)]
            lowest = [have[want[:, 1] == layer_y(layer), 1].min() for layer in range(6)]
            away = np.abs(want[-1, :2] - have[-1, :2])
            share = np.maximum([targets[-1][2] - away[0], BLOCK_HEIGHT - away[1]], 0).prod() / (targets[-1][2] * BLOCK_HEIGHT)
            stands = float(np.abs(np.sin(have[:, 2])).max()) < 0.05
            heights = [f"{y:.3f}" for y in lowest] if stands else ["falls", *[""] * 5]
            table.add_row(name, "yes" if sticky else "no", *heights, f"{share:.1%}" if stands else "")
    return table


def silhouettes(count: int) -> Table:
    """How many targets of generated scenes can be filled."""
    table = Table(title=f"{count} silhouettes of each level without their obstacles, built from the bottom up, all sticky")
    for column in ("level", "targets filled", "of the sixth layer", "scenes filled"):
        table.add_column(column, justify="left" if column == "level" else "right")
    for level in (5, 7, "nine_targets", "double_the_targets"):
        rng = np.random.default_rng(0)
        done: list[np.ndarray] = []
        top: list[np.ndarray] = []
        for _ in range(count):
            scene = TASKS["silhouette"].generate(rng, level)
            rows = scene.rows(Role.TARGET)
            rows = rows[np.argsort(scene.pose[rows, 1], kind="stable")]
            built = build([(*scene.pose[row, :2].tolist(), float(scene.size[row, 0])) for row in rows], sticky=True)
            done.append(np.asarray(filled(built)))
            top.append(np.abs(built.pose[built.rows(Role.TARGET), 1] - layer_y(5)) < 0.1)
        all_, sixth = np.concatenate(done), np.concatenate(top)
        table.add_row(str(level), f"{all_.mean():.1%}", f"{all_[sixth].mean():.1%}", f"{np.mean([each.all() for each in done]):.1%}")
    return table


def main() -> None:
    """Prints both tables."""
    console = Console(width=140)
    console.print(towers())
    console.print(silhouettes(int(sys.argv[1]) if len(sys.argv) > 1 else 200))


if __name__ == "__main__":
    main()
