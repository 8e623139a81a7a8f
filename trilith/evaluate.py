"""How an agent is measured: it builds in frozen scenes, and what came of it goes into one file.

The result depends on the agent, the scenes and the seed alone: each episode has a random generator of its own, and episodes
run side by side in fixed groups, so that the number of worker processes changes nothing. Finished groups are kept in a journal
beside the result; a run that was stopped, even killed, goes on from there.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trilith.agent import Agent, load_agent
from trilith.episode import REASONS, Recording, State, step
from trilith.files import read_json, write_json
from trilith.frozen import SIZES, VERSION, Split, frozen, generator, set_name
from trilith.scene import Placement
from trilith.tasks import Level, get_task

GROUP = 16
"""Episodes side by side. Fixed, because how a network's batch is cut may change the last digits of its answer."""


@dataclass(frozen=True)
class Evaluation:
    """What is measured. Two runs of equal evaluations give equal files."""

    agent: str
    task: str
    level: Level = "hardest"
    split: Split = "test"
    scenes: int = 1000
    seed: int = 0
    """Of the agent's own randomness."""
    forfeit: bool = False
    worst: int = 10
    """Episodes that the result keeps whole: those that fell furthest short of what there was to earn."""

    def __post_init__(self) -> None:
        set_name(self.task, self.level, self.split)
        if not 1 <= self.scenes <= SIZES[self.split]:
            raise ValueError(f"{self.scenes} scenes: a {self.split} set has 1 to {SIZES[self.split]}")
        if self.worst < 0:
            raise ValueError(f"{self.worst} worst episodes: must be 0 or more")
        if self.level != "all":
            object.__setattr__(self, "level", get_task(self.task).check_level(self.level))

    def groups(self) -> list[list[int]]:
        """Scene indices of each group."""
        return [list(range(first, min(first + GROUP, self.scenes))) for first in range(0, self.scenes, GROUP)]


def play(agent: Agent, states: list[State], rngs: list[np.random.Generator], forfeit: bool = False) -> list[tuple[Recording, State]]:
    """Episodes from their starts to their ends, side by side: each as a recording and its last state."""
    now = list(states)
    placements: list[list[Placement | None]] = [[] for _ in states]
    while running := [k for k, state in enumerate(now) if not state.ended]:
        for k, placement in zip(running, agent.act([now[k] for k in running], [rngs[k] for k in running]), strict=True):
            placements[k].append(placement)
            now[k] = step(now[k], placement, forfeit).state
    return [(Recording(first, tuple(placed), forfeit), last) for first, placed, last in zip(states, placements, now, strict=True)]


def run_group(agent: Agent, evaluation: Evaluation, indices: list[int]) -> list[dict[str, Any]]:
    """What came of each episode of a group, as a line of the journal has it."""
    e = evaluation
    starts = [frozen(e.task, e.level, e.split, index) for index in indices]
    rngs = [generator("trilith agent", e.seed, set_name(e.task, e.level, e.split), index) for index in indices]
    return [
        {
            "index": index,
            "level": end.level,
            "reward": end.total,
            "best": end.rules.best(end.scene),
            "steps": end.steps,
            "glue": int(end.scene.sticky.sum()),
            "reason": end.ended,
            "placements": recording.to_json()["placements"],
        }
        for index, (recording, end) in zip(indices, play(agent, starts, rngs, e.forfeit), strict=True)
    ]


def recording_of(evaluation: Evaluation, episode: dict[str, Any]) -> dict[str, Any]:
    """An episode of a journal as a recording in JSON."""
    first = frozen(evaluation.task, evaluation.level, evaluation.split, episode["index"])
    return {"start": first.to_json(), "placements": episode["placements"], "forfeit": evaluation.forfeit}


def summary(evaluation: Evaluation, episodes: list[dict[str, Any]]) -> dict[str, Any]:
    """The result: means with 95 % intervals, and what the figures of a report are made of."""
    rewards, best = (np.array([episode[name] for episode in episodes]) for name in ("reward", "best"))
    levels = sorted({episode["level"] for episode in episodes}, key=str)
    reasons = [episode["reason"] for episode in episodes]
    short = sorted(episodes, key=lambda episode: (episode["reward"] - episode["best"], episode["index"]))[: evaluation.worst]
    return {
        **asdict(evaluation),
        "version": VERSION,
        "episodes": len(episodes),
        "reward": float(rewards.mean()),
        "interval": 1.96 * float(rewards.std(ddof=1)) / len(rewards) ** 0.5 if len(rewards) > 1 else None,
        "share": float(rewards.sum() / best.sum()),
        "most": float(best.mean()),
        "solved": reasons.count("complete") / len(reasons),
        "blocks": float(np.mean([episode["steps"] for episode in episodes])),
        "glue": float(np.mean([episode["glue"] for episode in episodes])),
        "reasons": {reason: reasons.count(reason) for reason in REASONS},
        "by_level": {
            str(level): {"episodes": int(chosen.sum()), "reward": float(rewards[chosen].mean()), "most": float(best[chosen].mean())}
            for level in levels
            if (chosen := np.array([episode["level"] == level for episode in episodes])).any()
        },
        "rewards": rewards.tolist(),
        "worst": [
            {"index": e["index"], "reward": e["reward"], "most": e["best"], "reason": e["reason"], **recording_of(evaluation, e)}
            for e in short
        ],
    }


class Run:
    """An evaluation on its way to a file. `run` does what is not done yet, `finish` writes the result."""

    def __init__(self, evaluation: Evaluation, out: Path) -> None:
        """Takes up what an earlier run left. Raises ValueError if `out` holds the result of another evaluation."""
        self.evaluation, self.out = evaluation, out
        self.journal = out.with_name(f".{out.stem}.journal")
        self.done: dict[int, list[dict[str, Any]]] = {}
        self.result: dict[str, Any] | None = None
        self._identity = {**asdict(evaluation), "version": VERSION}
        load_agent(evaluation.agent)  # a wrong name is told before any worker starts
        if out.exists():
            found = read_json(out)
            if not isinstance(found, dict) or any(found.get(key) != value for key, value in self._identity.items()):
                raise ValueError(f"{out} holds another result: choose another --out, or remove it")
            self.result = found
        elif self.journal.exists():
            self._take_up()

    def _take_up(self) -> None:
        lines = self.journal.read_text(encoding="utf-8").splitlines(keepends=True)
        if not lines or not lines[0].endswith("\n") or json.loads(lines[0]) != self._identity:
            return
        for line in lines[1:]:
            if line.endswith("\n"):  # the last line may have been cut off
                group, episodes = json.loads(line)
                self.done[group] = episodes

    def run(self, workers: int) -> Iterator[list[dict[str, Any]]]:
        """Runs the groups that are not done, in so many processes, and yields the episodes of each as it ends."""
        if self.result is not None:
            return
        todo = [(number, group) for number, group in enumerate(self.evaluation.groups()) if number not in self.done]
        self.out.parent.mkdir(parents=True, exist_ok=True)
        with self.journal.open("w", encoding="utf-8") as journal:
            journal.write(json.dumps(self._identity) + "\n")
            for number, episodes in sorted(self.done.items()):
                journal.write(json.dumps([number, episodes]) + "\n")
            journal.flush()
            for number, episodes in _spread(self.evaluation, todo, workers):
                self.done[number] = episodes
                journal.write(json.dumps([number, episodes]) + "\n")
                journal.flush()
                yield episodes

    def episodes(self) -> list[dict[str, Any]]:
        """The episodes done so far, by index."""
        return [episode for _, episodes in sorted(self.done.items()) for episode in episodes]

    def finish(self, record: Path | None = None) -> dict[str, Any]:
        """Writes the result and, if asked to, a recording of every episode; the journal is then no longer needed."""
        if self.result is None:
            episodes = self.episodes()
            if record is not None:
                for episode in episodes:
                    write_json(record / f"{episode['index']:05d}.json", recording_of(self.evaluation, episode))
            self.result = summary(self.evaluation, episodes)
            write_json(self.out, self.result)
            self.journal.unlink(missing_ok=True)
        return self.result


_agent: Agent
_evaluation: Evaluation


def _begin(evaluation: Evaluation) -> None:
    """Prepares a worker process: one thread each, and Ctrl-C is for the main process to handle."""
    global _agent, _evaluation
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _agent, _evaluation = load_agent(evaluation.agent), evaluation


def _work(job: tuple[int, list[int]]) -> tuple[int, list[dict[str, Any]]]:
    number, indices = job
    return number, run_group(_agent, _evaluation, indices)


def _spread(evaluation: Evaluation, jobs: list[tuple[int, list[int]]], workers: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    if workers == 1 or len(jobs) < 2:
        agent = load_agent(evaluation.agent)
        for number, indices in jobs:
            yield number, run_group(agent, evaluation, indices)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before a worker imports anything that would start more
    with multiprocessing.get_context("spawn").Pool(min(workers, len(jobs)), _begin, (evaluation,)) as pool:
        yield from pool.imap_unordered(_work, jobs)
