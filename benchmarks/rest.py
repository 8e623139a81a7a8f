"""How blocks come to rest in this engine: `python benchmarks/rest.py [SCENES [PLACEMENTS]]`.

It prints the figures behind three constants: `SPACING` in tasks/task.py, `CONTACT_TUNING` and `REST_SPEED` in physics.py.

- Heights of the centres of stacked blocks, each placed 0.04 m above its target and settled before the next; and the share of its target
  that the topmost block overlaps.
- The share of targets of generated silhouettes that are filled if each gets a sticky block, from the bottom up, without obstacles. It shows
  how many scenes fail because of the rest heights alone.
- Physics steps until the world counts as at rest, and the largest distance that a block still moves from then to the end of the full 20 s,
  for several damping ratios of contacts and rest speeds. The placements are those of planner and script in the first validation scenes of
  each task's hardest level. The full 20 s are run twice: with the engine's sleep, which stops a body that was slower than 0.05 m/s for
  0.5 s, and without.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional

from trilith.evaluation.scene_sets import start_in_set
from trilith.planners import Planner, ScriptedBuilder
from trilith.world import physics
from trilith.world.actions import CLEARANCE
from trilith.world.episode import step
from trilith.world.physics import engine_world, settle
from trilith.world.scene import BLOCK_HEIGHT, LARGE, MEDIUM, SLOT_WIDTHS, SMALL, Placement, Role, Scene, fresh_scene, place
from trilith.world.tasks import TASKS
from trilith.world.tasks.silhouette import filled
from trilith.world.tasks.task import layer_y

Piece = tuple[float, float, float]
"""Centre (x, y) and width of a target, in metres."""


def tower(*layers: list[tuple[float, float]]) -> list[Piece]:
    """Targets from the (x, width) of each; one list per layer, from the lowest."""
    return [(x, layer_y(k), width) for k, layer in enumerate(layers) for x, width in layer]


TOWERS: dict[str, list[Piece]] = {
    "six small": tower(*[[(0.0, SMALL)]] * 6),
    "six medium": tower(*[[(0.0, MEDIUM)]] * 6),
    "six large": tower(*[[(0.0, LARGE)]] * 6),
    "five large on a small": tower([(0.0, SMALL)], *[[(0.0, LARGE)]] * 5),
    "seven large on a small": tower([(0.0, SMALL)], *[[(0.0, LARGE)]] * 3, *[[(-1.925, LARGE), (1.925, LARGE)]] * 2),
}
"""The last tower is the heaviest of eight targets. It stands only with glue."""


def build(targets: list[Piece], sticky: bool) -> Scene:
    """The scene after a block was placed on each target, in order."""
    scene = fresh_scene([(x, y, width, BLOCK_HEIGHT) for x, y, width in targets], [])
    for x, y, width in targets:
        scene = settle(place(scene, Placement(SLOT_WIDTHS.index(width), x, y + CLEARANCE, sticky), keep=True)).scene
    return scene


def towers() -> Table:
    """The table of heights at which the blocks of `TOWERS` rest."""
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
    """The table of filled targets, for `count` generated scenes per level."""
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


def played(task: str, count: int) -> list[Scene]:
    """At least `count` scenes with a block just placed, from whole episodes of the planner and of the script in turn."""
    placed: list[Scene] = []
    index = 0
    while len(placed) < count:
        for builder in (Planner(), ScriptedBuilder()):
            state = start_in_set(task, "hardest", "valid", index)
            while not state.ended:
                (placement,) = builder.act([state], [])
                after = step(state, placement)
                if placement is not None and after.settled is not None:
                    placed.append(place(state.scene, placement, TASKS[task].keeps_supply))
                state = after.state
        index += 1
    return placed


def awake_world() -> Any:
    """A world of the engine without sleep."""
    world = engine_world()
    world.sleeping_enabled = False
    return world


def rest(placed: list[Scene]) -> str:
    """As text: mean physics steps to rest, and the largest distance (mm) of a block at rest from its position after the full 20 s, with the
    engine's sleep and without."""
    steps, moved = [], []
    for scene in placed:
        early, full = settle(scene), settle(scene, early_stop=False)
        with patch.object(physics, "engine_world", awake_world):
            awake = settle(scene, early_stop=False)
        blocks = scene.rows(Role.BLOCK)
        steps.append(early.steps)
        moved.append([np.hypot(*(early.scene.pose - late.scene.pose)[blocks, :2].T).max() for late in (full, awake)])
    asleep_mm, awake_mm = 1e3 * np.max(moved, axis=0)
    return f"{np.mean(steps):.1f}  {asleep_mm:.2f}  {awake_mm:.2f}"


def rules(count: int) -> Table:
    """The table of steps and movement, by damping ratio and rest speed."""
    placed = {task: played(task, count) for task in TASKS}
    table = Table(
        title=f"physics steps until at rest (slower for {physics.REST_STEPS} steps), and largest movement (mm) from there "
        "to 20 s: with the engine's sleep, without"
    )
    table.add_column("damping ratio")
    table.add_column("rest speed, m/s")
    for task, scenes in placed.items():
        table.add_column(f"{task}\n{len(scenes)} placements", justify="right")
    hertz, _, push = physics.CONTACT_TUNING
    for damping in (10.0, 5.0, 2.0):
        for speed in (0.001, 0.002, 0.005):
            with patch.multiple(physics, CONTACT_TUNING=(hertz, damping, push), REST_SPEED=speed, _REST_SPIN=speed / (LARGE / 2)):
                table.add_row(f"{damping:.0f}", f"{speed}", *map(rest, placed.values()), end_section=speed == 0.005)
    return table


def main(scenes: Positional[int] = 200, placements: Positional[int] = 300) -> None:
    """Prints the tables, from `scenes` silhouettes per level and at least `placements` placements per task."""
    console = Console(width=140)
    console.print(towers())
    console.print(silhouettes(scenes))
    console.print(rules(placements))


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
