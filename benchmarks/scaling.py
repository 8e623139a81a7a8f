"""Growth of costs: time of a step, a decision and a learner step by the numbers of objects, offsets and scenes.

    python benchmarks/scaling.py [--rounds 3]

Scenes of Connecting's first level with small blocks in rows of 15, up to 120 objects. A step is a placement on top, settled, with the next
mask. A decision and a learner step are those of the network `objects` with untrained weights, the latter without the optimiser. Only one
number changes at a time; the others are 30 objects, 15 offsets, and 1 scene for a decision or 8 for a learner step. Times are processor
times, the shortest of several rounds. The exponent is the slope of a line through the logarithms: 1 if twice as many cost twice as much.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
import torch
import tyro
from pixels import best, learner_step
from worlds import with_blocks  # type: ignore[import-not-found]  # with the tests

from trilith.agents.dqn.policy import make_acting_net, make_net, make_schema, observe
from trilith.agents.dqn.recipes import OBJECTS
from trilith.networks.inputs.scene_batch import ReplaySchema, SceneSchema
from trilith.utils.console import show, table_of
from trilith.world.actions import DiscreteRelative
from trilith.world.episode import State, start, step
from trilith.world.physics import settle
from trilith.world.scene import Placement

OBJECTS_NUMBERS, OFFSETS_NUMBERS, SCENES_NUMBERS = (15, 30, 60, 120), (5, 15, 45), (1, 4, 16, 64)
USUAL, BATCH = 30, 8
"""Number of objects when another number changes; number of scenes of a learner step when another number changes."""
ROW, APART = 15, 0.95
"""Blocks per row, and metres between their centres: neighbours do not touch."""
Job = Callable[[], object]


@dataclass
class Options:
    """Benchmark how costs grow."""

    rounds: int = 3
    """Number of times that each figure is measured."""


def scene_of(objects: int) -> State:
    """A state with `objects` objects: the first scene, and blocks at rest in columns."""
    state = start("connecting", 0, np.random.default_rng(0))
    count = objects - len(state.scene)
    places = [(0, (k % ROW - ROW // 2) * APART, 0.35 + 0.69 * (k // ROW), 0.0) for k in range(count)]
    return replace(state, scene=settle(with_blocks(state.scene, places)).scene)


def one_step(objects: int, offsets: int) -> Job:
    state, codec = scene_of(objects), DiscreteRelative(offsets)
    top = float(state.scene.pose[:, 1].max()) + 0.75
    placement = Placement(0, 0.0, top)
    assert step(state, placement).settled is not None, "it is a whole step"
    return lambda: codec.mask(step(state, placement).state.scene)


def network(objects: int, offsets: int) -> tuple[State, ReplaySchema]:
    schema = make_schema(replace(OBJECTS, offsets=offsets), "connecting", beyond=False)
    return scene_of(objects), replace(schema, rows=max(schema.rows, objects))


def decision(objects: int, offsets: int, scenes: int = 1) -> Job:
    state, schema = network(objects, offsets)
    config = replace(OBJECTS, offsets=offsets)
    net = make_acting_net(config, schema)
    net.load(make_net(config, schema).weights())
    return lambda: net.values(observe(schema, [state] * scenes))


def learning(objects: int, offsets: int, scenes: int = BATCH) -> Job:
    state, schema = network(objects, offsets)
    records = observe(schema, [state] * scenes)
    return learner_step(make_net(replace(OBJECTS, offsets=offsets), schema), records, records)


def exponent(numbers: tuple[int, ...], times: list[float]) -> float:
    """The slope of log time over log number, by least squares."""
    return float(np.polyfit(np.log(numbers), np.log(times), 1)[0])


def main(options: Options) -> None:
    """Prints the table, and the cost that grows fastest."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    offsets = OBJECTS.offsets
    rows: list[tuple[str, str, tuple[int, ...], Callable[[int], Job]]] = []
    for name, make in (("step", one_step), ("decision", decision), ("learner step", learning)):
        rows.append((name, "objects", OBJECTS_NUMBERS, partial(make, offsets=offsets)))
        rows.append((name, "offsets", OFFSETS_NUMBERS, partial(make, USUAL)))
    rows += [
        (name, "scenes", SCENES_NUMBERS, partial(make, USUAL, offsets))
        for name, make in (("decision", decision), ("learner step", learning))
    ]
    table, found = table_of("cost of a", "by", "numbers", "ms", "exponent"), []
    for name, what, numbers, job in rows:
        times = [best(job(number), options.rounds) for number in numbers]
        slope = exponent(numbers, times)
        found.append((slope, f"{name} by {what}, {times[-1]:.3g} ms at {numbers[-1]}"))
        table.add_row(name, what, " / ".join(map(str, numbers)), " / ".join(f"{time:.3g}" for time in times), f"{slope:.2f}")
    show(table)
    slope, what = max(found)
    print(
        f"grows fastest: a {what}, exponent {slope:.2f}; the first hard limit: {limit()} objects besides the available blocks in a record"
    )


def limit() -> int:
    """The largest number of objects that a record of a scene can count."""
    return int(np.iinfo(SceneSchema(1).dtype["count"]).max)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
