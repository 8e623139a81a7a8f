"""Sets of frozen scenes, on which all agents are evaluated. Seeds define the scenes, and checksums show whether they have changed.

A set has a task, a level and a split. The split `test` has 10,000 scenes, for reported results; the split `valid` has 1,000 scenes, to
monitor a training. Scene i of a set has its own random generator, seeded from the name of the set and i. So each scene can be generated
without the others. Training seeds its random generators with small numbers, so they differ from those of sets.

`scenes.json` holds, for each set, a checksum of the first 100 scenes and a checksum of all scenes. If a task generates other scenes, the
checksums change. Tests then fail until `VERSION` is raised and the file is written again (`trilith check-scenes --freeze`). Results
of different versions cannot be compared.

A user's own task has sets too, but no checksums in this file. Instead, results on its scenes contain a checksum; see `Evaluation.identity`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from trilith.utils.checks import require
from trilith.utils.files import read_json, write_json
from trilith.world.episode import State, start
from trilith.world.tasks import TASKS, Level, get_task

VERSION = 1
Split = Literal["test", "valid"]
SIZES: dict[Split, int] = {"test": 10_000, "valid": 1_000}
FIRST = 100
"""Number of scenes that the checksum "first" of a set covers."""
CHECKSUMS = Path(__file__).parent / "scenes.json"


def set_name(task: str, level: Level, split: Split) -> str:
    """The name of a set: task/level/split. The level "hardest" and the last level give the same name. Raises ValueError if there is no such
    task, level or split."""
    rules = get_task(task)
    require(split in SIZES, f"there is no split {split!r}: choose {', '.join(SIZES)}")
    return f"{rules.name}/{'all' if level == 'all' else rules.check_level(level)}/{split}"


def generator(*name: object) -> np.random.Generator:
    """A random generator seeded from a name, whose parts are joined by "/". Different names give unrelated streams."""
    digest = hashlib.sha256("/".join(map(str, name)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))


def start_in_set(task: str, level: Level, split: Split, index: int) -> State:
    """The initial state in scene `index` of a set. Raises ValueError if the set has no such scene."""
    name = set_name(task, level, split)
    require(0 <= index < SIZES[split], f"scene {index}: {split} sets have the scenes 0 to {SIZES[split] - 1}")
    return start(task, level, generator("trilith scenes", VERSION, name, index))


def all_sets() -> list[tuple[str, Level, Split]]:
    """Lists the sets of the paper's tasks, each as (task, level, split). The levels include "all" and the generalisation levels."""
    sets: list[tuple[str, Level, Split]] = []
    for task in TASKS.values():
        levels: list[Level] = ["all", *task.levels, *task.generalisation]
        sets += [(task.name, level, split) for level in levels for split in SIZES]
    return sets


def has_checksum(task: str) -> bool:
    """Whether checksums guard the scenes of a task. True for the paper's tasks, False for the user's own."""
    return task in TASKS


def checksum(task: str, level: Level, split: Split, count: int) -> str:
    """A checksum of the first `count` scenes of a set and of their levels: 32 hexadecimal digits."""
    digest = hashlib.sha256()
    for index in range(count):
        state = start_in_set(task, level, split, index)
        digest.update(f"{state.level}:".encode() + state.scene.tobytes())
    return digest.hexdigest()[:32]


def recorded() -> dict[str, dict[str, str]]:
    """Reads the checksums of all sets from `scenes.json`. Maps the name of each set to its two checksums: "first", of `FIRST` scenes, and
    "all". Raises ValueError if the file is of another version of the scenes."""
    data = read_json(CHECKSUMS)
    require(
        data["version"] == VERSION,
        f"{CHECKSUMS} is of version {data['version']} of the scenes, the code of {VERSION}: run trilith check-scenes --freeze",
    )
    return dict(data["sets"])


def check() -> Iterator[tuple[str, bool]]:
    """Yields (name, unchanged) for every set of the paper's tasks: whether all its scenes are the same as when they were frozen."""
    sets = recorded()
    for task, level, split in all_sets():
        name = set_name(task, level, split)
        yield name, sets.get(name, {}).get("all") == checksum(task, level, split, SIZES[split])


def freeze() -> Iterator[str]:
    """Computes the checksums of all sets, and writes them to `scenes.json` at the end. Yields the name of each set when its checksums are
    computed. Raises ValueError if the scenes of a set have changed but `VERSION` has not."""
    old = read_json(CHECKSUMS) if CHECKSUMS.exists() else {"version": None, "sets": {}}
    sets = {}
    for task, level, split in all_sets():
        name = set_name(task, level, split)
        sets[name] = {"first": checksum(task, level, split, FIRST), "all": checksum(task, level, split, SIZES[split])}
        require(
            old["version"] != VERSION or old["sets"].get(name, sets[name]) == sets[name],
            f"the scenes of {name} differ from those frozen as version {VERSION}: raise scene_sets.VERSION first",
        )
        yield name
    write_json(CHECKSUMS, {"version": VERSION, "sets": sets})
