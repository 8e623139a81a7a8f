"""Checks that a change of the code leaves every outcome of the world the same, byte for byte.

`python benchmarks/same_bytes.py record before.json` writes a digest of every step of many episodes. With the changed code,
`python benchmarks/same_bytes.py compare before.json` plays them again and prints where a digest differs.

The digest of a step covers the scene, the reward, the end, the result of physics, the mask and the graph, and for some steps the frames.
In each task:

- *legal*: random legal relative placements, sticky half of the time, undone and redrawn if they end the episode by a failure.
- *anywhere*: the same with random placements that may overlap something or lie outside the area where blocks may be.
- *tumbling*: not steps, but heaps of blocks at any angle and speed, some of them overlapping, left to settle.
- *script*, *planner*, *objects*: episodes of these agents in hardest scenes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro
from tyro.conf import Positional

from trilith.agents.base import Agent
from trilith.agents.registry import load
from trilith.evaluation.scene_sets import Split, generator, start_in_set
from trilith.planners import Planner, ScriptedBuilder
from trilith.utils.files import read_json, write_json
from trilith.world.actions import DiscreteRelative, DiscreteRelativeXY
from trilith.world.episode import State, start, step
from trilith.world.observations.graph import graph
from trilith.world.physics import Settled, settle
from trilith.world.scene import SLOTS, Placement, Scene, place
from trilith.world.tasks import TASKS, Level, get_task

CODEC, CODEC_XY = DiscreteRelative(), DiscreteRelativeXY(5)
RECORD = 8
"""One in so many steps is recorded with its frames."""
TRIES = 30
"""Number of failed placements in one state after which another episode begins."""


def digest(scene: Scene, settled: Settled | None, *others: object) -> str:
    """A digest of an outcome: the scene, the result of physics, `others`, the masks and the graph."""
    sha = hashlib.sha256(repr((others, settled and (settled.hit, settled.steps))).encode() + scene.tobytes())
    if settled is not None:
        sha.update(settled.scene.tobytes() + (b"" if settled.frames is None else settled.frames.tobytes()))
    for array in (CODEC.mask(scene), CODEC_XY.mask(scene), *graph(scene), scene.solid):
        sha.update(array.tobytes())
    return sha.hexdigest()[:16]


def starts(task: str) -> Iterator[State]:
    """Yields initial states: every second one at the hardest level, the others at each level in turn."""
    levels: list[Level] = ["hardest", "all", "hardest", *get_task(task).levels, *get_task(task).generalisation]
    for number in range(10**9):
        level = "hardest" if number % 2 else levels[number // 2 % len(levels)]
        yield start(task, level, np.random.default_rng(number))


def played(states: Iterator[State], choose: Callable[[State], Placement | None]) -> Iterator[str]:
    """Yields the digest of every step, including steps that end the episode by a failure. Such a step is undone, at most `TRIES` times."""
    done = 0
    for first in states:
        state, tries = first, 0
        while not state.ended and tries < TRIES:
            after, reward, settled = step(state, choose(state), zero_on_hit=done % 2 == 0, record=done % RECORD == 0)
            yield digest(after.scene, settled, reward, after.total, after.ended)
            done += 1
            failed = after.ended in ("spawn_collision", "obstacle_hit", "bad_simulation", "bad_choice")
            state, tries = (state, tries + 1) if failed else (after, 0)


def legal(task: str) -> Iterator[str]:
    rng = generator("legal", task)

    def choose(state: State) -> Placement | None:
        mask = CODEC.mask(state.scene)
        choices = np.flatnonzero(mask)
        if not len(choices):
            return None
        action = np.unravel_index(choices[rng.integers(len(choices))], mask.shape)
        return CODEC.decode(state.scene, (*map(int, action), int(rng.integers(2))))

    return played(starts(task), choose)


def anywhere(task: str) -> Iterator[str]:
    rng = generator("anywhere", task)

    def choose(state: State) -> Placement | None:
        near = rng.random() < 0.5
        x, y = rng.uniform((-3, 0), (3, 4)) if near else rng.uniform((-12, -2), (12, 18))
        return Placement(int(rng.integers(SLOTS)), float(x), float(y), bool(rng.integers(2)))

    return played(starts(task), choose)


def tumbling(task: str) -> Iterator[str]:
    rng = generator("tumbling", task)
    for number, state in enumerate(starts(task)):
        scene = state.scene
        for _ in range(rng.integers(1, 8)):
            scene = place(scene, Placement(int(rng.integers(SLOTS)), 0.0, 0.0, rng.random() < 0.3), keep=True)
        pose, velocity, blocks = scene.pose.copy(), scene.velocity.copy(), slice(len(state.scene), None)
        pose[blocks] = rng.uniform((-3, 0.3, -4), (3, 6, 4), size=pose[blocks].shape)
        pose[blocks, 2] *= rng.random(len(pose[blocks])) < 0.5
        velocity[blocks] = rng.normal(size=velocity[blocks].shape) * rng.choice([0.0, 0.3, 5.0])
        scene = Scene(pose, scene.size, velocity, scene.role, scene.sticky, scene.contact, scene.glue, scene.glue_frame)
        for _ in range(2):
            settled = settle(scene, record=number % RECORD == 0)
            scene = settled.scene
            yield digest(scene, settled)


def agent(task: str, who: Agent, split: Split, scenes: int) -> Iterator[str]:
    rng = generator(task)
    return played((start_in_set(task, "hardest", split, k) for k in range(scenes)), lambda state: who.act([state], [rng])[0])


def sources(task: str) -> dict[str, tuple[int, Iterator[str]]]:
    """Maps each kind of episode to (maximum number of digests, iterator of digests)."""
    return {
        "legal": (4000, legal(task)),
        "anywhere": (800, anywhere(task)),
        "tumbling": (300, tumbling(task)),
        "script": (400, agent(task, ScriptedBuilder(), "valid", 40)),
        "planner": (200, agent(task, Planner(), "valid", 8)),
        "objects": (1000, agent(task, load("objects"), "test", 30)),
    }


def main(what: Positional[Literal["record", "compare"]], path: Positional[Path], share: float = 1.0) -> None:
    """Records digests in a file, or compares with it. With `share` below 1, only this part of each kind."""
    before: dict[str, Any] = {} if what == "record" else read_json(path)
    now: dict[str, list[str]] = {}
    wrong = 0
    for task in TASKS:
        for source, (most, digests) in sources(task).items():
            name = f"{task}/{source}"
            now[name] = list(islice(digests, int(most * share)))
            if what == "compare":
                pairs = zip_longest(now[name], before[name][: int(most * share)])  # an episode that differs may have another length
                differ = [k for k, (one, two) in enumerate(pairs) if one != two]
                wrong += len(differ)
                print(f"{name}: {len(now[name])} compared, {len(differ)} differ" + (f", the first is {differ[0]}" if differ else ""))
    if what == "record":
        write_json(path, now)
    total = sum(map(len, now.values()))
    print(f"{total} steps recorded" if what == "record" else f"{total} steps compared, {wrong} differ")
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
