"""Verifies a ledger by replay: makes every action of every entry again in the simulator, and compares the rewards and the reasons why
episodes end.

A replay shows that the actions earn these rewards in these scenes. It does not show which agent chose the actions. So the agent also
chooses its actions again in the first scenes, and these are compared. This needs the agent's weights, if it has any.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from trilith.agents.registry import AGENTS, fingerprint, shipped
from trilith.evaluation.runner import run_group
from trilith.evaluation.scene_sets import VERSION, start_in_set
from trilith.paper.figures import PAPER_SCRIPT
from trilith.paper.ledger import Entry, entry_files, read_entry
from trilith.search.config import ALGORITHMS, SearchConfig
from trilith.utils.distributed.pool import Work
from trilith.utils.distributed.process_pool import spread
from trilith.utils.files import prefix_errors
from trilith.world.episode import Recording
from trilith.world.physics import PHYSICS
from trilith.world.scene import Placement, checked_placement

REDECIDED = 20
"""Number of scenes in which an agent chooses its actions again, rounded up to whole groups."""
TOLERANCE = 1e-9
"""Maximum difference between rewards that count as equal, because sums of rewards are rounded."""


class Checked(NamedTuple):
    """The result of checking the file of an entry."""

    path: Path
    episodes: int
    """Number of scenes in the entry; 0 if nothing was replayed."""
    problem: str
    """The problem in one line that names the file; empty if there is none."""
    redecided: int
    """Number of scenes in which the agent chose its actions again and made the same placements. 0 if it did not choose again, for instance
    because its weights are not available."""


def verify(folder: Path, runs: Path, workers: int = 1) -> Iterator[Checked]:
    """Checks all entries of the ledger in `folder`, and yields the results in the order in which they are ready. `runs` is the folder with
    training runs, in which weights are looked for."""
    yield from spread(partial(_work, runs), entry_files(folder), workers)


def _work(runs: Path) -> Work:
    return lambda path, _: check(path, runs)


def check(path: Path, runs: Path) -> Checked:
    """Checks the file of one entry. If the entry is wrong, the result states the problem. `runs` is the folder with training runs, in which
    weights are looked for."""
    try:
        entry = read_entry(path)
        with prefix_errors(f"{path}: "):
            return _check(path, entry, runs)
    except ValueError as error:
        return Checked(path, 0, str(error), 0)


def _check(path: Path, entry: Entry, runs: Path) -> Checked:
    """Checks an entry, which was read from `path`. Raises ValueError if it names what does not exist, or cannot be played again."""
    placements = entry.placements()
    if (entry.version, entry.physics) != (VERSION, PHYSICS):
        other = f"scenes {entry.version} and physics {entry.physics}, this version of trilith has {VERSION} and {PHYSICS}"
        return Checked(path, 0, f"{path} cannot be replayed: it is of {other}", 0)
    evaluation = entry.evaluation(entry.agent)
    problem = next((f"{path}: {each}" for each in map(partial(_replay, entry), range(entry.scenes), placements) if each), "")
    if problem or (agent := _agent(entry, evaluation.search, runs)) is None:
        return Checked(path, entry.scenes, problem, 0)
    evaluation = replace(evaluation, agent=agent)
    built, again = evaluation.load(), 0
    for group in evaluation.groups():
        for episode in run_group(built, evaluation, group):
            index = episode["index"]
            chosen = tuple(None if each is None else checked_placement(each) for each in episode["placements"])
            if chosen != placements[index]:
                return Checked(path, entry.scenes, f"{path}: scene {index}: the agent {agent} now makes other placements", 0)
        again += len(group)
        if again >= REDECIDED:
            break
    return Checked(path, entry.scenes, "", again)


def _replay(entry: Entry, index: int, placements: tuple[Placement | None, ...]) -> str:
    """Replays the episode of scene `index`. Returns the first difference from the entry in words, or an empty text."""
    start = start_in_set(entry.task, entry.level, entry.split, index)
    state, where = start, f"scene {index}"
    try:
        for step in Recording(start, placements, entry.zero_on_hit).replay():
            state = step.state
    except ValueError as error:
        return f"{where}: {error}"
    if state.ended != entry.reasons[index]:
        return f"{where} ends by {entry.reasons[index]} in the entry, by {state.ended or 'nothing yet'} in the replay"
    if abs(state.total - entry.rewards[index]) > TOLERANCE:
        return f"{where} has the reward {entry.rewards[index]} in the entry, {state.total} in the replay"
    return ""


def _agent(entry: Entry, search: SearchConfig, runs: Path) -> str | None:
    """The name of an entry's agent, or the path of its weights. None if the weights are not available or not those of the entry, or if
    the agent is a user's class, or searched by one or in another world than the simulator."""
    kept = runs / entry.agent / f"{entry.training.weights}.safetensors" if entry.training else None
    ours = entry.agent in AGENTS or shipped(entry.agent) or entry.agent == PAPER_SCRIPT
    name = entry.agent if ours else str(kept) if kept and kept.exists() else None
    if name is None or search.world != "simulator" or search.algorithm not in ALGORITHMS:  # a file must not cause an import
        return None
    return name if fingerprint(name, entry.task) == entry.weights else None
