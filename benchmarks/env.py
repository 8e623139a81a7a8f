"""How fast the world is: `python benchmarks/env.py` prints a table for each task at its hardest level.

Everything is measured in one process in one run, so read the ratios; the machine may be busy with other things.

- *steps/s*: whole environment steps by random legal relative actions: new scenes, placement, settling, reward, mask and graph.
- *step / engine*: the same over episodes that build (random legal actions, redrawn where they would end the episode), as a
  ratio to the time Box2D itself needs for the same worlds, creating them and stepping them.
- *engine share* and *physics steps* are of those episodes too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time as clock
from typing import Any
from unittest.mock import patch

import numpy as np
import pyb2d3
from rich.console import Console
from rich.table import Table

from trilith import physics
from trilith.actions import DiscreteRelative, legal
from trilith.episode import State, start, step
from trilith.observe.graph import graph
from trilith.observe.image import image
from trilith.observe.segments import segments
from trilith.physics import GRAVITY, SUB_STEPS, TIME_STEP, Settled, _create_bodies, _weld, settle
from trilith.scene import Placement, Scene, place
from trilith.tasks import TASKS

CODEC = DiscreteRelative()


def choose(state: State, rng: np.random.Generator, mask: np.ndarray) -> Placement | None:
    """A random legal placement, sticky half of the time."""
    choices = np.flatnonzero(mask)
    if not len(choices):
        return None
    c, r, i = np.unravel_index(choices[rng.integers(len(choices))], mask.shape)
    return CODEC.decode(state.scene, (int(c), int(r), int(i), int(rng.integers(2))))


def random_steps(task: str, count: int) -> float:
    """Steps per second of a plain random legal builder, everything a learner needs included."""
    rng = np.random.default_rng(0)
    done, begin = 0, clock()
    while done < count:
        state = start(task, "hardest", rng)
        while not state.ended:
            mask = legal(state.scene, CODEC)
            graph(state.scene)
            state = step(state, choose(state, rng, mask)).state
            done += 1
    return done / (clock() - begin)


def building_episodes(task: str, count: int) -> list[tuple[State, Placement, Settled]]:
    """Steps of episodes that build: (state, placement, what physics did), at least `count` of them."""
    rng = np.random.default_rng(1)
    steps: list[tuple[State, Placement, Settled]] = []
    while len(steps) < count:
        state = start(task, "hardest", rng)
        while not state.ended:
            mask = legal(state.scene, CODEC)
            for _ in range(30):
                placement = choose(state, rng, mask)
                result = step(state, placement) if placement else None
                if result is None or result.state.ended not in ("obstacle_hit", "bad_simulation"):
                    break
            if placement is None or result is None or result.settled is None:
                break
            steps.append((state, placement, result.settled))
            state = result.state
    return steps


Bond = tuple[int, int, int, list[float]]
"""After how many steps which two rows were welded, and how."""


def bonds(placed: Scene) -> list[Bond]:
    """The welds that are made while a scene settles."""
    done = len(placed.glue)
    log: list[Bond] = []
    steps = 0

    class Counting(pyb2d3.World):  # type: ignore[misc]
        def step(self, *arguments: float) -> None:
            nonlocal steps
            steps += 1
            super().step(*arguments)

    def weld(world: pyb2d3.World, a: pyb2d3.Body, b: pyb2d3.Body, frame: list[float]) -> None:
        log.append((steps, a.user_data, b.user_data, frame))
        _weld(world, a, b, frame)

    with patch.object(pyb2d3, "World", Counting), patch.object(physics, "_weld", weld):
        settle(placed)
    return log[done:]


def engine_only(placed: Scene, steps: int, bonds: list[Bond]) -> None:
    """What Box2D itself does for a placement: a world with these bodies and welds, and so many steps."""
    world = pyb2d3.World(gravity=(0.0, GRAVITY))
    bodies = _create_bodies(world, placed)
    for (i, j), frame in zip(placed.glue.tolist(), placed.glue_frame.tolist(), strict=True):
        _weld(world, bodies[i], bodies[j], frame)
    done = 0
    for at, i, j, frame in bonds:
        for _ in range(at - done):
            world.step(TIME_STEP, SUB_STEPS)
        done = at
        _weld(world, bodies[i], bodies[j], frame)
    for _ in range(steps - done):
        world.step(TIME_STEP, SUB_STEPS)
    world.destroy()


def seconds(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> float:
    """Time of all these calls."""
    begin = clock()
    for arguments in calls:
        function(*arguments)
    return clock() - begin


def whole_step(state: State, placement: Placement) -> None:
    """One environment step with all that a learner needs of the next state."""
    after = step(state, placement).state
    legal(after.scene, CODEC)
    graph(after.scene)


def measure(task: str, count: int) -> list[str]:
    """One row of the table."""
    random_steps(task, 50)  # compiles what has not been compiled on this machine yet
    rate = random_steps(task, count)
    built = building_episodes(task, count)
    scenes = [(state.scene,) for state, _, _ in built]
    placed = [place(state.scene, placement, TASKS[task].keeps_supply) for state, placement, _ in built]
    worlds = [(scene, settled.steps, bonds(scene)) for scene, (_, _, settled) in zip(placed, built, strict=True)]
    calls = [(state, placement) for state, placement, _ in built]
    rounds = [(seconds(whole_step, calls), seconds(engine_only, worlds), seconds(step, calls)) for _ in range(3)]
    whole, engine, stepped = (min(times) for times in zip(*rounds, strict=True))
    some = scenes[:: max(1, len(scenes) // 200)]
    milliseconds = [
        1e3 * min(seconds(function, calls_) for _ in range(3)) / len(calls_)
        for function, calls_ in (
            (lambda scene: legal(scene, CODEC), scenes),
            (graph, scenes),
            (image, some),
            (segments, some),
        )
    ]
    return [
        task,
        f"{rate:.0f}",
        f"{whole / engine:.2f}",
        f"{engine / stepped:.0%}",
        f"{np.mean([settled.steps for _, _, settled in built]):.0f}",
        f"{np.mean([len(scene) for (scene,) in scenes]):.0f}",
        f"{1e3 * whole / len(calls):.2f}",
        *(f"{value:.3f}" for value in milliseconds[:2]),
        *(f"{1e3 / value:.0f}" for value in milliseconds[2:]),
    ]


def main() -> None:
    """Prints the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    table = Table(title=f"hardest levels, {count} steps each, one core")
    for column in (
        "task",
        "steps/s", "step / engine", "engine share", "physics steps", "objects", "step ms", "legal ms", "graph ms", "images/s", "segments/s",
    ):  # fmt: skip
        table.add_column(column, justify="left" if column == "task" else "right")
    for task in TASKS:
        table.add_row(*measure(task, count))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
