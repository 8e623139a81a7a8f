"""Evaluates an agent on frozen scenes, and writes the result to one file.

The result depends only on the `Evaluation`, the agent's weights and the code. Each episode has its own random generator, and episodes run
side by side in fixed groups, so the number of worker processes changes nothing. Finished groups are kept in a journal beside the result. An
evaluation that was stopped or killed resumes from the journal. The result contains no times, so equal evaluations give equal files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from io import FileIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from trilith.agents.base import Agent
from trilith.agents.dynamics.files import MODEL
from trilith.agents.dynamics.registry import is_model, world_fingerprint
from trilith.agents.registry import check_builds, code_of, fingerprint, load, shipped
from trilith.agents.weights import weights_file
from trilith.evaluation.play import choose, play
from trilith.evaluation.scene_sets import FIRST, SIZES, VERSION, Split, checksum, generator, has_checksum, set_name, start_in_set
from trilith.evaluation.schema import MAX_RESULT, Count, Played, read_result
from trilith.evaluation.statistics import half_width
from trilith.search.config import SearchConfig
from trilith.utils.checks import check_boolean, require, shortened
from trilith.utils.compiled import is_compiled
from trilith.utils.distributed.pool import Work, do_all
from trilith.utils.distributed.process_pool import spread
from trilith.utils.distributed.ray_cluster import Cluster
from trilith.utils.distributed.ray_pool import RayPool
from trilith.utils.files import (
    MAX_LINES,
    atomic_write,
    check_same,
    clear_leftovers,
    make_folder,
    name_path_in_errors,
    parse_json,
    read_file,
    read_json,
    sealed,
    write_json,
)
from trilith.utils.tensors import MAX_WEIGHTS
from trilith.world.bonds import meet
from trilith.world.episode import BUILDER, REASONS, hit_obstacle, step
from trilith.world.physics import PHYSICS
from trilith.world.scene import Role
from trilith.world.tasks import Level, get_task

FRESH = "start over with --fresh"
"""Advice in error messages, for instance if the result file belongs to another evaluation."""
GROUP = 16
"""Number of episodes that are played side by side. It is fixed, because the batch size of a network may change the last digits of its
outputs."""


@dataclass(frozen=True)
class Evaluation:
    """Settings of an evaluation: an agent plays the first `scenes` scenes of a set. Equal settings, weights and code give equal files."""

    agent: str
    """A name that `registry.load` accepts."""
    task: str
    level: Level = "hardest"
    split: Split = "test"
    scenes: int = 1000
    seed: int = 0
    """Seed of the agent's own randomness."""
    zero_on_hit: bool = False
    search: SearchConfig = field(default_factory=SearchConfig)
    """Options of the search; a budget of 0 means no search."""
    sample: bool = False
    """Whether the agent samples from its policy instead of taking the best action."""
    worst: int = 10
    """How many of the worst episodes the result keeps with all placements. The worst episodes are those whose reward is furthest below the
    highest possible one."""

    def __post_init__(self) -> None:
        set_name(self.task, self.level, self.split)
        for name in ("scenes", "seed", "worst"):
            value = getattr(self, name)
            require(isinstance(value, int), f"{name} {shortened(value)}: must be a whole number")
        check_boolean("zero_on_hit", self.zero_on_hit)
        require(1 <= self.scenes <= SIZES[self.split], f"{self.scenes} scenes: a {self.split} set has 1 to {SIZES[self.split]}")
        require(self.worst >= 0, f"{self.worst} worst episodes: must be 0 or more")
        require(self.seed >= 0, f"seed {self.seed}: must be 0 or more")
        if self.level != "all":
            object.__setattr__(self, "level", get_task(self.task).check_level(self.level))

    def identity(self) -> dict[str, Any]:
        """Returns a dictionary of all values on which the episodes depend. A result with equal values is a result of this evaluation."""
        facts = {name: value for name, value in asdict(self).items() if name not in ("worst", "search") and (name != "sample" or value)}
        search = asdict(self.search) if self.search.budget else None
        if search is not None and (model := world_fingerprint(self.search.world)):
            search["model"] = model
        if not has_checksum(self.task):
            facts["checksum"] = checksum(self.task, self.level, self.split, FIRST)
        facts |= {"search": search, "weights": fingerprint(self.agent, self.task), "version": VERSION, "physics": PHYSICS}
        return facts | code_of([self.agent], self.task, search)

    @property
    def builder(self) -> str:
        """The agent's name in films, with " + search" if it searches. Only the last `BUILDER` characters are kept."""
        return f"{self.agent}{' + search' if self.search.budget else ''}"[-BUILDER:]

    def load(self) -> Agent:
        """Returns the agent. Raises ValueError if there is no agent of this name, or if it cannot play the task, search or sample as
        asked."""
        agent = load(self.agent, self.search, self.zero_on_hit, sample=self.sample)
        check_builds(self.agent, self.task)
        return agent

    def groups(self) -> list[list[int]]:
        """Returns the scene indices of each group. The episodes of a group are played side by side. Every group has `GROUP` scenes, except
        that the last one may have fewer."""
        return [list(range(first, min(first + GROUP, self.scenes))) for first in range(0, self.scenes, GROUP)]


def run_group(agent: Agent, evaluation: Evaluation, indices: list[int]) -> list[Played]:
    """Plays the episodes in the scenes `indices` in one batch. Returns them in this order. `agent` is the result of `evaluation.load`.

    The rule `zero_on_hit` does not change the actions of an agent without search. So one episode of such an agent gives its return with and
    without this rule.
    """
    e, searches = evaluation, bool(evaluation.search.budget)
    starts = [start_in_set(e.task, e.level, e.split, index) for index in indices]
    rngs = [generator("trilith agent", e.seed, set_name(e.task, e.level, e.split), index) for index in indices]
    episodes = []
    for index, (recording, end) in zip(indices, play(agent, starts, rngs, e.zero_on_hit and searches), strict=True):
        assert end.ended is not None
        forfeited = 0.0 if hit_obstacle(end, recording.placements[-1]) else end.total
        episode: Played = {
            "index": index,
            "level": end.level,
            "reward": forfeited if e.zero_on_hit else end.total,
            "kept": None if searches and e.zero_on_hit else end.total,
            "forfeited": None if searches and not e.zero_on_hit else forfeited,
            "best": end.rules.best(end.scene),
            "blocks": int((end.scene.role == Role.BLOCK).sum()),
            "glue": int(end.scene.sticky.sum()),
            "reason": end.ended,
            "placements": recording.to_json()["placements"],
        }
        episodes.append(episode)
    return episodes


def recording_of(evaluation: Evaluation, episode: Played) -> dict[str, Any]:
    """The recording of an episode that `run_group` returned, as a dictionary for JSON."""
    first = start_in_set(evaluation.task, evaluation.level, evaluation.split, episode["index"])
    return {"start": first.to_json(), "placements": episode["placements"], "zero_on_hit": evaluation.zero_on_hit, "physics": PHYSICS}


def summary(evaluation: Evaluation, episodes: list[Played]) -> dict[str, Any]:
    """Returns the content of a result file: the identity of the evaluation, means over all episodes, means by level, the reward of every
    episode, and the worst episodes. `schema.Result` describes most fields. `episodes` must be complete, in the order of the scenes."""
    rewards, best = (np.array([episode[name] for episode in episodes]) for name in ("reward", "best"))
    rules, drawn = get_task(evaluation.task), [episode["level"] for episode in episodes]
    chosen = {level: np.array([each == level for each in drawn]) for level in (*rules.levels, *rules.generalisation) if level in drawn}
    reasons = [episode["reason"] for episode in episodes]
    short = sorted(episodes, key=lambda episode: (episode["reward"] - episode["best"], episode["index"]))[: evaluation.worst]
    return {
        **evaluation.identity(),
        "episodes": len(episodes),
        "reward": float(rewards.mean()),
        "kept": _mean(episodes, "kept"),
        "forfeited": _mean(episodes, "forfeited"),
        "interval": half_width(rewards),
        "share": float(rewards.sum() / best.sum()),
        "most": float(best.mean()),
        "solved": reasons.count("complete") / len(reasons),
        "blocks": float(np.mean([episode["blocks"] for episode in episodes])),
        "glue": float(np.mean([episode["glue"] for episode in episodes])),
        "reasons": {reason: reasons.count(reason) for reason in REASONS},
        "by_level": {
            str(level): {"episodes": int(rows.sum()), "reward": float(rewards[rows].mean()), "most": float(best[rows].mean())}
            for level, rows in chosen.items()
        },
        "rewards": rewards.tolist(),
        "worst": [
            {"index": e["index"], "reward": e["reward"], "most": e["best"], "reason": e["reason"], **recording_of(evaluation, e)}
            for e in short
        ],
    }


def _mean(episodes: list[Played], name: Literal["kept", "forfeited"]) -> float | None:
    """Mean of the field `name` over episodes. None if the field is None in any episode."""
    values = [episode[name] for episode in episodes]
    return None if None in values else float(np.mean(np.array(values, np.float64)))


class Run:
    """An evaluation in progress. Exhaust the generator `run`, which plays the groups of scenes that are not done yet. Then call `finish`,
    which writes the result."""

    def __init__(self, evaluation: Evaluation, out: Path, record: Path | None = None, fresh: bool = False) -> None:
        """Prepares an evaluation whose result is written to the file `out`. No scene is played yet. If an earlier run of the same
        evaluation has finished, its result is read from `out`. If it was stopped, its finished groups are read from the journal. With
        `fresh`, both are ignored, and `run` removes the earlier result. If `record` names a folder, `finish` writes every episode there.

        Raises ValueError if the agent cannot be loaded, or if agent or task have changed since the journal was started. Raises ValueError
        if the file `out` exists but is not a result of this evaluation, if it keeps too few worst episodes, or if its episodes are not in
        the folder `record`. With `fresh`, `out` may be a result of any evaluation.
        """
        self.evaluation, self.out, self.record, self.fresh = evaluation, out, record, fresh
        self.journal = out.parent / f".{out.stem}.journal"
        self.done: dict[int, list[Played]] = {}
        self.result: dict[str, Any] | None = None
        evaluation.load()  # raises an error for a wrong name before any worker starts
        self._identity = evaluation.identity()
        if fresh:
            require(not out.exists() or _is_result(out), f"{out} is not a result of trilith evaluate: choose another --out")
        elif out.exists():
            self.result = self._finished()
        elif self.journal.is_file():
            self._take_up()

    def _finished(self) -> dict[str, Any]:
        found = read_result(self.out)
        if found is None:
            raise ValueError(f"{self.out} is not a result of trilith evaluate: choose another --out")
        check_same(self.out, "a result", found, self._identity, FRESH)
        require(
            len(found["worst"]) >= min(self.evaluation.worst, self.evaluation.scenes),
            f"{self.out} keeps the {len(found['worst'])} worst episodes, no more: choose another --out, or {FRESH}",
        )
        require(
            self.record is None or all(self._recorded(index).exists() for index in range(self.evaluation.scenes)),
            f"{self.out} is done, but its episodes are not in {self.record}: to record them, choose another --out",
        )
        return found

    def _take_up(self) -> None:
        """Reads the finished groups of an earlier run from the journal. Ignores a journal of an evaluation with other options. Raises
        ValueError if the options are the same, but the agent or the task has changed since then."""
        heading, groups = {}, self.evaluation.groups()
        lines = read_file(self.journal, MAX_LINES).splitlines(keepends=True)
        with suppress(ValueError, LookupError):
            heading = _entry(lines[0], dict[str, Any])
        if _line(_asked(heading)) != _line(_asked(self._identity)):
            return
        check_same(self.journal, "episodes", heading, self._identity, FRESH)
        for line in lines[1:]:
            with suppress(ValueError, LookupError):  # the group of a damaged line is played again
                number, episodes = _entry(line, tuple[Count, list[Played]])
                if [episode["index"] for episode in episodes] == groups[number]:
                    self.done[number] = episodes

    def compile(self) -> None:
        """Lets the agent make one placement if the numba functions are not compiled yet. Then no worker compiles them, and the displayed
        speed of the episodes does not include compilation. Does nothing if the result is already there."""
        if self.result is None and not is_compiled(meet):
            e, rng = self.evaluation, np.random.default_rng(0)
            state = start_in_set(e.task, e.level, e.split, 0)
            [placement] = choose(e.load(), [state], [rng])
            step(state, placement)

    def run(self, workers: int, cluster: str | None = None) -> Iterator[list[Played]]:
        """Plays the remaining groups in at most `workers` processes, on this machine or on the Ray cluster `cluster`. Yields the episodes
        of each group as soon as the group is finished, in any order. Yields nothing if the result is already there.

        Raises OSError if the disk is full or a worker on this machine dies; finished groups are kept.
        """
        if self.result is not None:
            return
        for folder in filter(None, (self.out.parent, self.record)):
            make_folder(folder)
            clear_leftovers(folder)
        if self.fresh:
            with name_path_in_errors(self.out):
                self.out.unlink(missing_ok=True)
        todo = [(number, group) for number, group in enumerate(self.evaluation.groups()) if number not in self.done]
        with atomic_write(self.journal) as aside:
            aside.write_bytes(b"".join(map(_line, [self._identity, *([number, self.done[number]] for number in sorted(self.done))])))
        with FileIO(self.journal, "a") as journal:
            make = partial(_make_work, self.evaluation, {})
            answers = _spread_on(cluster, self.evaluation, todo, workers) if cluster else spread(make, todo, workers)
            for number, episodes in answers:
                self.done[number] = episodes
                line = _line([number, episodes])
                with name_path_in_errors(self.journal):
                    while line:  # on a nearly full disk only a part may be written
                        line = line[journal.write(line) or 0 :]
                yield episodes

    def episodes(self) -> list[Played]:
        """The episodes in memory, in the order of their scenes. There are none if the result was read from its file."""
        return [episode for _, episodes in sorted(self.done.items()) for episode in episodes]

    def finish(self) -> dict[str, Any]:
        """Writes the result, and the recordings if a folder for them was given. Then removes the journal, and returns the result. Raises
        ValueError if the agent or the task has changed since the start, or if scenes have not been played."""
        if self.result is None:
            episodes, scenes = self.episodes(), self.evaluation.scenes
            require(len(episodes) == scenes, f"{len(episodes)} episodes of {scenes}: a result needs all, so exhaust the generator `run`")
            for episode in episodes if self.record is not None else ():
                recorded = recording_of(self.evaluation, episode) | {"by": self.evaluation.builder}
                write_json(self._recorded(episode["index"]), recorded, durable=False)
            require(
                self.evaluation.identity() == self._identity,
                f"{self.evaluation.agent}, or its task, changed while it was measured: {FRESH}",
            )
            self.result = sealed(summary(self.evaluation, episodes))
            write_json(self.out, self.result)
            self.journal.unlink(missing_ok=True)
        return self.result

    def _recorded(self, index: int) -> Path:
        assert self.record is not None
        return self.record / f"{index:05d}.json"


def evaluate(
    agent: str,
    task: str,
    level: Level = "hardest",
    *,
    scenes: int = 1000,
    budget: int = 0,
    split: Split = "test",
    seed: int = 0,
    zero_on_hit: bool = False,
    workers: int = 1,
    cluster: str | None = None,
    out: str | Path | None = None,
    fresh: bool = False,
) -> dict[str, Any]:
    """Evaluates an agent on the first `scenes` frozen scenes of a set. Returns the result with the fields that `trilith evaluate` writes:
    "reward", "interval", "solved", …

    `agent` is a name, the folder of a run, a file of weights, or my_module:MyAgent. `budget` is the number of simulations before each
    placement. `workers` is the number of worker processes on this machine or, if `cluster` is given, on a Ray cluster (local, auto or its
    address). If `out` is given, the result is written to this file, and an evaluation that was stopped is resumed. With `fresh` it starts
    over instead.
    """
    takes = "evaluate takes a name, the folder of a run, a file of weights or my_module:MyAgent; trilith.play takes an agent itself"
    require(isinstance(agent, str), f"agent {shortened(agent)}: {takes}")
    evaluation = Evaluation(agent, task, level, split, scenes, seed, zero_on_hit, SearchConfig(budget))
    with TemporaryDirectory() as folder:
        run = Run(evaluation, Path(out) if out else Path(folder) / "result.json", fresh=fresh)
        for _ in run.run(workers, cluster):
            pass
        return run.finish()


def _line(entry: Any) -> bytes:
    """Returns a line of the journal: the entry as JSON, a space, and a checksum of this JSON."""
    text = json.dumps(entry, allow_nan=False).encode()
    return text + b" " + _digest(text).encode() + b"\n"


def _entry(line: bytes, kind: Any) -> Any:
    """Reads the entry in a line of the journal, as the type `kind`. Raises ValueError if the line is cut off or damaged."""
    text, _, stated = line.rstrip().rpartition(b" ")
    require(stated == _digest(text).encode(), "a damaged line")
    return parse_json(text, kind)


def _asked(identity: dict[str, Any]) -> dict[str, Any]:
    """Returns an identity (see `Evaluation.identity`) without the fields about the content of agent and task: weights, code, and checksum
    of the scenes."""
    return {name: value for name, value in identity.items() if name not in ("weights", "code", "checksum")}


def _is_result(path: Path) -> bool:
    """Whether a JSON file has the main fields of a result. Neither their values nor versions are checked. Raises ValueError if the file is
    not JSON."""
    data = read_json(path, most=MAX_RESULT)
    return isinstance(data, dict) and data.keys() >= {"agent", "task", "reward", "rewards"}


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]


Job = tuple[int, list[int]]
"""A group of scenes: its number, and the indices of its scenes."""


def _spread_on(address: str, evaluation: Evaluation, jobs: list[Job], workers: int) -> Iterator[tuple[int, list[Played]]]:
    """Plays groups of scenes (`jobs`) with workers on the Ray cluster at `address`. Yields (number of the group, its episodes) as soon as a
    group is finished, in any order."""
    require(workers >= 1, f"{workers} workers: must be 1 or more")
    if not jobs:
        return
    make = partial(_make_work, evaluation, _files(evaluation))
    with closing(Cluster(address)) as cluster:
        yield from do_all(RayPool(cluster, make, min(workers, len(jobs)), cpus=1), jobs)


def _files(evaluation: Evaluation) -> dict[str, bytes]:
    """Returns the weights and cards of the agent (agent/…) and of a learned model (world/…) by file name, for machines that do not share a
    disk. Those that every worker can load by name are left out."""
    agent, world, found = Path(evaluation.agent), evaluation.search.world, {}
    if not shipped(evaluation.agent) and agent.exists():
        found["agent"] = weights_file(agent)
    if evaluation.search.budget and is_model(world):
        found["world"] = Path(world) / MODEL
    return {
        f"{part}/{each.name}": read_file(each, MAX_WEIGHTS) for part, path in found.items() for each in (path, path.with_suffix(".json"))
    }


def _make_work(evaluation: Evaluation, files: dict[str, bytes]) -> Work:
    """Returns the function with which a worker plays one group of scenes. `files` is the result of `_files`, or empty if every worker can
    load agent and model by their names."""
    here = evaluation
    with TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder) / name
            make_folder(path.parent)
            path.write_bytes(content)
            if name == f"world/{MODEL}":
                here = replace(here, search=replace(here.search, world=str(path.parent)))
            elif path.suffix != ".json":
                here = replace(here, agent=str(path))
        agent = here.load()
    return lambda job, _: (job[0], run_group(agent, evaluation, job[1]))
