"""Compares two agents on the same frozen scenes by the paired difference of their rewards, with a 95 % interval.

Rewards vary much more between scenes than between agents. So the rewards are subtracted scene by scene, and the interval is computed for
the mean of these differences. This interval is far narrower than an interval for two agents that are measured on different scenes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trilith.agents.base import Agent
from trilith.evaluation.runner import Run, recording_of, run_group
from trilith.evaluation.statistics import half_width
from trilith.render.pictures import contact_sheet, picture, save_png, without_sky
from trilith.world.episode import Recording, State

SAME = 1e-9
"""Maximum difference between rewards that count as equal."""


@dataclass(frozen=True)
class Comparison:
    """The comparison of two agents on the same scenes. Differences are the first agent's reward minus the second's."""

    scenes: int
    rewards: tuple[float, float]
    """Mean reward of each agent."""
    difference: float
    """Mean difference over the scenes."""
    interval: float | None
    """Half the width of the 95 % interval of the mean difference; None for a single scene."""
    won: int
    """Number of scenes in which the first agent has the higher reward."""
    lost: int
    """Number of scenes in which the second agent has the higher reward."""
    largest: tuple[int, ...]
    """Indices of the scenes in which the rewards differ most, largest absolute difference first. Scenes with equal rewards are left out."""


def compare(first: Sequence[float], second: Sequence[float], shown: int = 5) -> Comparison:
    """Compares two lists of rewards, with one entry per scene. The scenes and their order must be the same in both. `shown` is the maximum
    length of `Comparison.largest`."""
    rewards = np.array([first, second])
    difference = rewards[0] - rewards[1]
    n = len(difference)
    order = np.argsort(-np.abs(difference), kind="stable")[:shown]
    return Comparison(
        n,
        (float(rewards[0].mean()), float(rewards[1].mean())),
        float(difference.mean()),
        half_width(difference),
        int((difference > SAME).sum()),
        int((difference < -SAME).sum()),
        tuple(int(k) for k in order if abs(difference[k]) > SAME),
    )


def ends(run: Run, indices: Sequence[int]) -> list[State]:
    """Returns the final states of the episodes of `run` in the scenes `indices`, in this order. If the result of `run` was read from a
    file, its episodes are not in memory, and their groups are played again."""
    evaluation = run.evaluation
    found = {each["index"]: each for each in run.episodes()}
    agent: Agent | None = None
    for group in evaluation.groups():
        if set(group) & set(indices) - found.keys():
            agent = agent or evaluation.load()
            found |= {each["index"]: each for each in run_group(agent, evaluation, group)}
    recordings = [Recording.from_json(recording_of(evaluation, found[index])) for index in indices]
    return [[*recording.replay()][-1].state for recording in recordings]


def draw_differences(labels: Sequence[str], runs: Sequence[Run], indices: Sequence[int], path: Path) -> None:
    """Writes a PNG with one row for each scene of `indices`: the final scenes of both agents, the first agent on the left. `labels` and
    `runs` have one entry for each agent: its name, and its evaluation."""
    pictures, captions = [], []
    for index, *pair in zip(indices, *(ends(run, indices) for run in runs), strict=True):
        for label, end in zip(labels, pair, strict=True):
            pictures.append(without_sky(picture(end.scene, 400)))
            captions.append(f"scene {index} · {label}\n{end.total:.2f} · {(end.ended or 'not ended').replace('_', ' ')}")
    save_png(contact_sheet(pictures, captions, 2, legend=True), path)
