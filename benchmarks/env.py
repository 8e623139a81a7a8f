"""Speed of the world: `python benchmarks/env.py` prints a table, with a row for each task at its hardest level.

- *steps/s*: whole environment steps by random legal relative actions: new scenes, placement, settling, reward, mask and graph.
- *own ms*: time of such a step, without new scenes, minus the time that Box2D alone needs to create and step the same worlds. Actions are
  random legal ones, redrawn if a block would touch an obstacle; *step / engine*: the ratio of the two times.
- *planner steps/s*: the same whole steps over the planner's episodes in the first validation scenes, which are tall and stand.
- *physics steps*, *objects*, *step ms* and the columns after them: means over the same steps as *own ms*.

The last line says whether the engine releases the interpreter's lock: two threads then take the time of one.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from time import perf_counter
from time import process_time as clock
from typing import Any
from unittest.mock import patch

import numpy as np
import pyb2d3
import tyro
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional

from trilith.evaluation.scene_sets import start_in_set
from trilith.planners import Planner
from trilith.world import physics
from trilith.world.actions import DiscreteRelative
from trilith.world.episode import State, start, step
from trilith.world.observations.graph import graph
from trilith.world.observations.image import image
from trilith.world.observations.segments import segments
from trilith.world.physics import CONTACT_TUNING, SUB_STEPS, TIME_STEP, Settled, engine_world, settle
from trilith.world.scene import Placement, Scene, place
from trilith.world.tasks import TASKS

CODEC = DiscreteRelative()


def choose(state: State, rng: np.random.Generator, mask: np.ndarray) -> Placement | None:
    """A random legal placement, sticky half of the time."""
    choices = np.flatnonzero(mask)
    if not len(choices):
        return None
    c, r, i = np.unravel_index(choices[rng.integers(len(choices))], mask.shape)
    return CODEC.decode(state.scene, (int(c), int(r), int(i), int(rng.integers(2))))


def random_steps(task: str, count: int) -> float:
    """Steps per second of random legal play, with new scenes, masks and graphs."""
    rng = np.random.default_rng(0)
    done, begin = 0, clock()
    while done < count:
        state = start(task, "hardest", rng)
        while not state.ended:
            mask = CODEC.mask(state.scene)
            graph(state.scene)
            state = step(state, choose(state, rng, mask)).state
            done += 1
    return done / (clock() - begin)


def building_episodes(task: str, count: int) -> list[tuple[State, Placement, Settled]]:
    """At least `count` steps of random legal play: (state, placement, result of physics). A placement is drawn up to 30 times, until no
    block touches an obstacle."""
    rng = np.random.default_rng(1)
    steps: list[tuple[State, Placement, Settled]] = []
    while len(steps) < count:
        state = start(task, "hardest", rng)
        while not state.ended:
            mask = CODEC.mask(state.scene)
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


Call = tuple[str, int, Any, Any]
"""A call of the engine: its name, the number of the body, and two arguments."""


class Listening:
    """A world that passes calls to the engine and records them, so that `engine_only` can repeat them."""

    def __init__(self) -> None:
        self.world = engine_world()
        self.calls: list[Call] = []
        self.count = 0
        LISTS.append(self.calls)

    def create_body_from_def(self, definition: Any) -> ListeningBody:
        self.calls.append(("body", self.count, definition.copy(), None))
        self.count += 1
        return ListeningBody(self.world.create_body_from_def(definition), self.count - 1, self.calls)

    def step(self, *arguments: float) -> None:
        self.calls.append(("step", 0, None, None))
        self.world.step(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)


class ListeningBody:
    """A body of a `Listening` world. It records calls, too."""

    def __init__(self, body: Any, number: int, calls: list[Call]) -> None:
        self.body, self.number, self.calls = body, number, calls

    def create_polygon_shape(self, definition: Any, polygon: Any) -> None:
        self.calls.append(("shape", self.number, definition.copy(), polygon))
        self.body.create_polygon_shape(definition, polygon)

    def apply_mass_from_shapes(self) -> None:
        self.calls.append(("mass", self.number, None, None))
        self.body.apply_mass_from_shapes()

    def destroy(self) -> None:
        self.calls.append(("destroy", self.number, None, None))
        self.body.destroy()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.body, name)


LISTS: list[list[Call]] = []


def calls_of(placed: Scene) -> list[Call]:
    """The calls that change the engine's world while a scene settles."""
    with patch.object(physics, "engine_world", Listening):
        settle(placed)
    return LISTS.pop()


def engine_only(calls: list[Call]) -> None:
    """Repeats recorded calls: what Box2D alone does for a placement."""
    world = engine_world()
    world.set_contact_tuning(*CONTACT_TUNING)
    bodies: list[Any] = []
    for kind, number, definition, polygon in calls:
        if kind == "step":
            world.step(TIME_STEP, SUB_STEPS)
        elif kind == "shape":
            bodies[number].create_polygon_shape(definition, polygon)
        elif kind == "body":
            bodies.append(world.create_body_from_def(definition))
        elif kind == "mass":
            bodies[number].apply_mass_from_shapes()
        else:
            bodies[number].destroy()
    world.destroy()


def seconds(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> float:
    """Processor seconds of calls of `function` with each of these argument tuples."""
    begin = clock()
    for arguments in calls:
        function(*arguments)
    return clock() - begin


def whole_step(state: State, placement: Placement) -> None:
    """One environment step, with mask and graph of the next state."""
    after = step(state, placement).state
    CODEC.mask(after.scene)
    graph(after.scene)


def planned_episodes(task: str, scenes: int) -> list[tuple[State, Placement]]:
    """Every step of the planner's episodes in the first validation scenes."""
    planner, steps = Planner(), []
    for index in range(scenes):
        state = start_in_set(task, "hardest", "valid", index)
        for placement in planner.plan(state):
            steps.append((state, placement))
            state = step(state, placement).state
    return steps


def measure(task: str, count: int) -> list[str]:
    """One row of the table."""
    random_steps(task, 50)  # compiles what has not been compiled on this machine yet
    rate = random_steps(task, count)
    built = building_episodes(task, count)
    scenes = [(state.scene,) for state, _, _ in built]
    placed = [place(state.scene, placement, TASKS[task].keeps_supply) for state, placement, _ in built]
    worlds = [(calls_of(scene),) for scene in placed]
    calls = [(state, placement) for state, placement, _ in built]
    rounds = [(seconds(whole_step, calls), seconds(engine_only, worlds)) for _ in range(3)]
    whole, engine = (min(times) for times in zip(*rounds, strict=True))
    planned = planned_episodes(task, 40)
    planned_rate = len(planned) / min(seconds(whole_step, planned) for _ in range(3))
    some = scenes[:: max(1, len(scenes) // 200)]
    milliseconds = [
        1e3 * min(seconds(function, calls_) for _ in range(3)) / len(calls_)
        for function, calls_ in (
            (lambda scene: CODEC.mask(scene), scenes),
            (graph, scenes),
            (image, some),
            (segments, some),
        )
    ]
    return [
        task,
        f"{rate:.0f}",
        f"{planned_rate:.0f}",
        f"{whole / engine:.2f}",
        f"{1e3 * (whole - engine) / len(calls):.2f}",
        f"{np.mean([settled.steps for _, _, settled in built]):.0f}",
        f"{np.mean([len(scene) for (scene,) in scenes]):.0f}",
        f"{1e3 * whole / len(calls):.2f}",
        *(f"{value:.3f}" for value in milliseconds[:2]),
        *(f"{1e3 / value:.0f}" for value in milliseconds[2:]),
    ]


BODIES = 1500
"""Number of bodies of a world whose steps spend nearly all of their time inside the engine."""


def threads_ratio(steps: int = 100) -> float:
    """Time by the clock of two threads, each with its own world, divided by that of one thread: 1 without a lock, 2 with one."""

    def heavy() -> Any:
        world = engine_world()
        definition, shape = pyb2d3.body_def(type=pyb2d3.BodyType.DYNAMIC), pyb2d3.shape_def(density=1.0)
        for k in range(BODIES):
            definition.position = (0.72 * (k % 15), 0.9 * (k // 15))
            world.create_body_from_def(definition).create_polygon_shape(shape, pyb2d3.box(0.35, 0.35))
        return world

    def run(world: Any) -> None:
        for _ in range(steps):
            world.step(TIME_STEP, SUB_STEPS)

    times = []
    for count in (1, 2):
        worlds = [heavy() for _ in range(count)]
        threads = [Thread(target=run, args=(world,)) for world in worlds]
        begin = perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        times.append(perf_counter() - begin)
        for world in worlds:
            world.destroy()
    return times[1] / times[0]


def main(count: Positional[int] = 2000) -> None:
    """Prints the table, from `count` steps in each task."""
    table = Table(title=f"hardest levels, {count} steps each, one core")
    for column in (
        "task",
        "steps/s", "planner steps/s", "step / engine", "own ms", "physics steps", "objects", "step ms",
        "legal ms", "graph ms", "images/s", "segments/s",
    ):  # fmt: skip
        table.add_column(column, justify="left" if column == "task" else "right")
    for task in TASKS:
        table.add_row(*measure(task, count))
    Console(width=140).print(table)
    print(f"two threads with a world each take {threads_ratio():.1f} times as long as one thread with one world")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
