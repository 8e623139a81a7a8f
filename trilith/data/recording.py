"""Records episodes of agents, with all their states, as arrays in a folder. Transition models can be trained on them.

The files depend only on the `Recorder`, the agents' weights and the code. Every episode has its own random generator, and every file
holds a fixed number of episodes, so the number of worker processes changes nothing. A file appears whole or not at all. After a stop or a
kill, `record` resumes with the missing files. `world/trajectory.py` describes the arrays of an episode. To store a single episode as JSON,
for films and the web page, use `world.episode.Recording`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trilith.agents.dynamics.registry import world_fingerprint
from trilith.agents.registry import check_builds, code_of, fingerprint, load
from trilith.evaluation.play import trajectories
from trilith.evaluation.scene_sets import SIZES, Split, generator, start_in_set
from trilith.search.config import SearchConfig
from trilith.utils.checks import require
from trilith.utils.distributed.pool import Work
from trilith.utils.distributed.process_pool import spread
from trilith.utils.files import check_same, clear_leftovers, folder_lock, make_folder, read_json, sealed, write_json
from trilith.utils.tensors import save_tensors
from trilith.world.episode import State, start
from trilith.world.physics import PHYSICS
from trilith.world.tasks import Level, get_task
from trilith.world.trajectory import DATASET, FORMAT, Trajectory, read_dataset, read_shard, shard_path, to_arrays

SHARD = 32
"""Number of episodes in a file. Each agent plays its episodes of a file in one batch. The number is fixed, because the last digits of a
network's outputs may depend on the batch size."""
Shard = tuple[dict[str, NDArray[Any]], dict[str, str]]
"""The content of a file: arrays by name, and texts by name."""


@dataclass(frozen=True)
class Recorder:
    """Settings for recording episodes. Equal settings, weights and code give the same bytes."""

    agents: tuple[str, ...]
    """Names of the n agents. They take turns: episode i is played by agent i modulo n."""
    task: str
    level: Level = "all"
    episodes: int = 1000
    split: Literal["new"] | Split = "new"
    """Which scenes are played: `new` ones, on which no agent is evaluated, or the scenes of a frozen set, in order."""
    seed: int = 0
    """Seed of agents and of new scenes."""
    epsilon: float = 0.0
    """Probability with which each placement is replaced by a random legal one."""
    zero_on_hit: bool = False
    search: SearchConfig = field(default_factory=SearchConfig)

    def __post_init__(self) -> None:
        require(self.agents, "no agents: name at least one")
        require(self.episodes >= 1, f"{self.episodes} episodes: must be 1 or more")
        require(self.seed >= 0, f"seed {self.seed}: must be 0 or more")
        require(0 <= self.epsilon <= 1, f"epsilon {self.epsilon}: must be a probability, 0 to 1")
        require(self.split in ("new", *SIZES), f"there is no split {self.split!r}: choose new, {', '.join(SIZES)}")
        if self.split != "new":
            require(self.episodes <= SIZES[self.split], f"{self.episodes} episodes: a {self.split} set has {SIZES[self.split]} scenes")
        rules = get_task(self.task)
        object.__setattr__(self, "task", rules.name)
        if self.level != "all":
            object.__setattr__(self, "level", rules.check_level(self.level))
        for agent in dict.fromkeys(self.agents):
            load(agent, self.search, self.zero_on_hit)  # raises an error for a wrong name before anything is written
            check_builds(agent, self.task)

    @property
    def shards(self) -> int:
        """Number of files with episodes."""
        return -(-self.episodes // SHARD)

    def identity(self) -> dict[str, Any]:
        """Returns the fields of `dataset.json` except the checksums: all values that the episodes depend on, and the version of the
        format."""
        facts: dict[str, Any] = asdict(self) | {"agents": list(self.agents), "search": asdict(self.search) if self.search.budget else None}
        if facts["search"] and (model := world_fingerprint(self.search.world)):
            facts["search"]["model"] = model
        weights = [fingerprint(agent, self.task) for agent in self.agents]
        code = code_of(self.agents, self.task, facts["search"])
        return {"format": FORMAT, **facts, "weights": weights, **code, "physics": PHYSICS, "shards": self.shards}

    def play(self, agents: dict[str, Any], number: int) -> list[Trajectory]:
        """Plays the episodes of file `number`, and returns them in order. `agents` maps each name to its agent, as
        `_make_work` loads it."""
        done: dict[int, Trajectory] = {}
        indices = range(number * SHARD, min((number + 1) * SHARD, self.episodes))
        for k, name in enumerate(self.agents):
            mine = [index for index in indices if index % len(self.agents) == k]
            rngs = [generator("trilith record", self.seed, self.task, self.level, self.split, index) for index in mine]
            starts = [self._start(index, rng) for index, rng in zip(mine, rngs, strict=True)]
            played = trajectories(agents[name], starts, rngs, self.zero_on_hit, self.epsilon, name) if mine else []
            done |= dict(zip(mine, played, strict=True))
        return [done[index] for index in indices]

    def _start(self, index: int, rng: np.random.Generator) -> State:
        return start(self.task, self.level, rng) if self.split == "new" else start_in_set(self.task, self.level, self.split, index)


def record(recorder: Recorder, out: Path, workers: int) -> Iterator[Shard]:
    """Records episodes into the folder `out`, in at most `workers` processes. Yields the content of every file: first of the files that
    already exist, then of each other file as soon as it is saved.

    If `out` holds episodes with equal settings, they are kept. Raises ValueError if `out` holds files but no recording, episodes with other
    settings, or more episodes than asked for.
    """
    make_folder(out)
    with folder_lock(out):
        clear_leftovers(out)
        facts = _take(recorder, out)
        todo = []
        for number in range(recorder.shards):
            found = _found(recorder, out, number, facts["checksums"][number])
            if found is None:
                todo.append(number)
            else:
                yield found
        for number, arrays, texts in spread(partial(_make_work, recorder), todo, workers):
            facts["checksums"][number] = save_tensors(shard_path(out, number), arrays, texts)
            write_json(out / DATASET, sealed(facts))
            yield arrays, texts


def _take(recorder: Recorder, out: Path) -> dict[str, Any]:
    """Writes `dataset.json` into the folder `out`, and returns its content. The checksums of files that already exist are kept, except
    that of a partly filled last file that gets more episodes. Raises ValueError if the folder holds files but no recording, episodes with
    other settings, or more episodes than asked for."""
    path, facts = out / DATASET, recorder.identity() | {"checksums": [None] * recorder.shards}
    if not path.exists():
        require(
            all(".lock" in (path.suffix, path.name) for path in out.iterdir()),
            f"{out} is not empty, and holds no recorded episodes: choose another --out",
        )
    else:
        known = read_dataset(out)  # raises ValueError if it is not a dataset
        grows = ("episodes", "shards", "checksums")
        check_same(out, "episodes", read_json(path), {name: value for name, value in facts.items() if name not in grows})
        require(
            known["episodes"] <= recorder.episodes,
            f"{out} holds {known['episodes']} episodes, more than {recorder.episodes}: choose another --out, or ask for as many",
        )
        facts["checksums"][: known["shards"]] = known["checksums"]
        if known["episodes"] < min(known["shards"] * SHARD, recorder.episodes):  # the last file gets more episodes
            facts["checksums"][known["shards"] - 1] = None
    write_json(path, sealed(facts))
    return facts


def _found(recorder: Recorder, out: Path, number: int, checksum: str | None) -> Shard | None:
    """Returns the content of file `number` in the folder `out`. Returns None if the file must be recorded: because it is missing, damaged
    or incomplete, or because its checksum is not `checksum`."""
    try:
        arrays, texts = read_shard(out, number, checksum)
    except ValueError:
        return None
    full = min(SHARD, recorder.episodes - number * SHARD)
    return (arrays, texts) if len(arrays["length"]) == full else None


def _make_work(recorder: Recorder) -> Work:
    """Returns the function with which a worker records one file. The function takes the number of the file, and returns (number, arrays,
    texts)."""
    agents = {name: load(name, recorder.search, recorder.zero_on_hit) for name in recorder.agents}
    return lambda number, _: (number, *to_arrays(recorder.play(agents, number)))


def rewards_of(arrays: dict[str, NDArray[Any]]) -> list[float]:
    """Returns the sum of rewards of each episode in a file, in the order of the episodes. `arrays` are the arrays of the file."""
    ends = np.cumsum(arrays["length"].astype(np.int64) + 1) - 1
    totals: list[float] = arrays["total"][ends].tolist()
    return totals
