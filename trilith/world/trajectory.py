"""Episodes with all their states, as objects and as plain arrays in files. Learned models are trained on these files, and other libraries
can read them.

A folder of episodes contains numbered safetensors files, each with some episodes. Its file `dataset.json` describes the recording and holds
the checksums of the other files. In a file the states of all episodes are concatenated, including the last state of each episode.
The objects of all states are concatenated too. So there is no padding, and every state is restored byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from trilith.utils.checks import require, shortened
from trilith.utils.files import check_sealed, prefix_errors, read_json, typed
from trilith.utils.tensors import load_tensors, read_header
from trilith.world.actions import DiscreteRelative
from trilith.world.episode import REASONS, State
from trilith.world.scene import FLOOR, INVALID_EDGE, Placement, Scene

FORMAT = 1
"""Version of the file format. Increase it when the order or the meaning of any array changes."""
DATASET = "dataset.json"
"""Name of the file that describes a recording."""
STOPPED = -2
"""Stored as the slot if the agent stopped instead of placing a block. The slot -1 stands for an invalid edge."""
CODEC = DiscreteRelative()
"""The action space of the paper's main agents. The action nearest to each placement is stored beside the placement."""
NO_EDGE = (FLOOR, FLOOR, 0, 0)
"""The action that is stored for an invalid edge, or if the agent stopped. No valid action has this value, because an edge never starts at
the floor."""


@dataclass(frozen=True)
class Trajectory:
    """An episode of L placements."""

    states: tuple[State, ...]
    """L + 1 states: the state before each placement, and the final state."""
    placements: tuple[Placement | None, ...]
    """L placements. None means that the agent stopped; only the last entry can be None."""
    rewards: tuple[float, ...]
    """L rewards, one for each placement."""
    explored: tuple[bool, ...]
    """L flags: whether each placement was chosen at random. Empty if unknown; in one file it must be known for all episodes or for none."""
    agent: str = ""
    """The name of the agent."""


_PER_OBJECT: dict[str, Any] = {"pose": "f8", "size": "f8", "velocity": "f8", "role": "u1", "sticky": "?"}
_PER_LINK: dict[str, Any] = {"contact": "i2", "glue": "i2", "glue_frame": "f8"}


def to_arrays(episodes: Sequence[Trajectory]) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Converts E episodes, with S states and T placements in all, to arrays and texts by name. All episodes must be of one task, begin with
    a state of 0 steps, and have ended.

    | array                               | shape              | what                                                              |
    |-------------------------------------|--------------------|-------------------------------------------------------------------|
    | length, agent, level, reason        | (E,)               | number of placements of each episode; its agent, its level and the reason why it ended, as indices into the texts `agents`, `levels` and `reasons` |
    | objects, contacts, glues            | (S,)               | number of objects, contacts and bonds of each state; an episode has length + 1 states |
    | total                               | (S,)               | the sum of rewards so far                                         |
    | pose, size, velocity, role, sticky  | (Σ objects, …)     | as in a `Scene`, the objects of all states one after another      |
    | contact, glue, glue_frame           | (Σ contacts, 2), … | likewise; a pair is two rows of its scene                         |
    | placement                           | (T, 4)             | slot (-1: an invalid edge, -2: stopped), x, y, sticky             |
    | action                              | (T, 4)             | the nearest discrete relative action: block, object, offset, sticky |
    | reward, explored, terminated        | (T,)               | terminated is true at the last placement of every episode         |
    """  # noqa: E501
    states = [state for episode in episodes for state in episode.states]
    scenes = [state.scene for state in states]
    steps = [(state, p) for episode in episodes for state, p in zip(episode.states[:-1], episode.placements, strict=True)]
    lists: dict[str, list[Any]] = {
        "agents": sorted({episode.agent for episode in episodes}),
        "levels": sorted({episode.states[0].level for episode in episodes}, key=str),
        "reasons": list(REASONS),
    }
    ended = [episode.states[-1].ended for episode in episodes]
    require(None not in ended, "only episodes that have ended can be stored")
    known = {len(episode.explored) == len(episode.placements) for episode in episodes}
    require(len(known) == 1, "`explored` must be known for all episodes or for none")
    arrays = {
        "length": np.array([len(episode.placements) for episode in episodes], "i4"),
        "agent": np.array([lists["agents"].index(episode.agent) for episode in episodes], "u1"),
        "level": np.array([lists["levels"].index(episode.states[0].level) for episode in episodes], "u1"),
        "reason": np.array([lists["reasons"].index(reason) for reason in ended], "u1"),
        "objects": np.array([len(scene) for scene in scenes], "i4"),
        "contacts": np.array([len(scene.contact) for scene in scenes], "i4"),
        "glues": np.array([len(scene.glue) for scene in scenes], "i4"),
        "total": np.array([state.total for state in states], "f8"),
        "placement": np.array([_numbers(p) for _, p in steps], "f8"),
        "action": np.array([_action(state, p) for state, p in steps], "i2"),
        "reward": np.array([reward for episode in episodes for reward in episode.rewards], "f8"),
        "explored": np.array([each for episode in episodes for each in episode.explored], "?"),
        "terminated": np.array([last for e in episodes for last in (*[False] * (len(e.placements) - 1), True)], "?"),
    }
    for name, dtype in (_PER_OBJECT | _PER_LINK).items():
        arrays[name] = np.concatenate([getattr(scene, name) for scene in scenes]).astype(dtype)
    texts = {"format": str(FORMAT), "task": states[0].task} | {name: json.dumps(values) for name, values in lists.items()}
    return arrays, texts


def from_arrays(arrays: dict[str, NDArray[Any]], texts: dict[str, str]) -> list[Trajectory]:
    """Restores episodes from the result of `to_arrays`."""
    agents, levels, reasons = (json.loads(texts[name]) for name in ("agents", "levels", "reasons"))
    ends = {name: np.cumsum(arrays[name])[:-1] for name in ("objects", "contacts", "glues")}
    columns = {
        name: np.split(arrays[name].astype(np.int64 if name == "role" else arrays[name].dtype), ends["objects"]) for name in _PER_OBJECT
    }
    columns |= {name: np.split(arrays[name], ends["contacts" if name == "contact" else "glues"]) for name in _PER_LINK}
    scenes = [Scene(**{name: column[k] for name, column in columns.items()}) for k in range(len(arrays["objects"]))]
    episodes, s, t = [], 0, 0
    for length, agent, level, reason in zip(*(arrays[name].tolist() for name in ("length", "agent", "level", "reason")), strict=True):
        states = [
            State(scenes[s + k], texts["task"], levels[level], k, float(arrays["total"][s + k]), reasons[reason] if k == length else None)
            for k in range(length + 1)
        ]
        here = slice(t, t + length)
        placements = tuple(_placement(row) for row in arrays["placement"][here].tolist())
        rewards, explored = tuple(arrays["reward"][here].tolist()), tuple(arrays["explored"][here].tolist())
        episodes.append(Trajectory(tuple(states), placements, rewards, explored, agents[agent]))
        s, t = s + length + 1, t + length
    return episodes


def _numbers(placement: Placement | None) -> tuple[float, ...]:
    return (STOPPED, 0.0, 0.0, 0.0) if placement is None else (placement.slot, placement.x, placement.y, placement.sticky)


def _placement(row: list[float]) -> Placement | None:
    slot, x, y, sticky = row
    return None if slot == STOPPED else Placement(int(slot), x, y, bool(sticky))


def _action(state: State, placement: Placement | None) -> tuple[int, ...]:
    """The discrete relative action nearest to a placement. It is `NO_EDGE` if the agent stopped (None) or chose an invalid edge."""
    return NO_EDGE if placement is None or placement == INVALID_EDGE else CODEC.encode(state.scene, placement)


def shard_path(folder: Path, number: int) -> Path:
    """The path of the file with the number `number` in a folder of episodes."""
    return folder / f"{number:05d}.safetensors"


class Dataset(TypedDict):
    """The contents of `dataset.json`, which describes a folder of recorded episodes."""

    format: int
    agents: list[str]
    task: str
    level: int | str
    episodes: Annotated[int, Meta(ge=1, le=2**40)]
    shards: Annotated[int, Meta(ge=1, le=2**40)]
    seed: int
    epsilon: float
    zero_on_hit: bool
    physics: int
    checksums: list[str | None]
    """The checksum of each file of episodes, by its number; None if the file is not recorded yet."""


def read_dataset(folder: Path) -> Dataset:
    """Reads `dataset.json` of a folder. Raises ValueError if the file is missing, damaged or not valid, or if it describes another version
    of the format."""
    path = folder / DATASET
    data = read_json(path, dict[str, Any])
    version = data.get("format")
    require(version == FORMAT, f"{folder} holds episodes of format {shortened(version)}, this version of trilith knows {FORMAT}")
    check_sealed(path, data)
    with prefix_errors(f"{path} is not valid: "):
        dataset: Dataset = typed(data, Dataset)
        require(len(dataset["checksums"]) == dataset["shards"], f"{len(dataset['checksums'])} checksums of {dataset['shards']} files")
    return dataset


def read_shard(folder: Path, number: int, checksum: str | None) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Reads the file of episodes with the number `number`. Returns its arrays and its texts, both by name. Raises ValueError if the file is
    missing or damaged, or if its checksum is not `checksum`."""
    path = shard_path(folder, number)
    stated = read_header(path).checksum
    require(stated == checksum, f"{path} is damaged: its checksum is not the one in {DATASET}")
    return load_tensors(path)


def read_episodes(folder: Path) -> Iterator[Trajectory]:
    """Yields all episodes of a folder, in order. Raises ValueError if a file is missing or damaged."""
    data = read_dataset(folder)
    for number in range(data["shards"]):
        path = shard_path(folder, number)
        checksum = data["checksums"][number]
        require(checksum and path.exists(), f"{folder} is not complete, {path.name} is missing: the command that recorded it resumes there")
        arrays, texts = read_shard(folder, number, checksum)
        try:
            yield from from_arrays(arrays, texts)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{path} does not hold recorded episodes ({' '.join(str(error).split())})") from None
