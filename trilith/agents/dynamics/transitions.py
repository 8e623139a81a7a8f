"""The table of recorded placements from which a transition model learns. Each row is one placement: the scene with the new block before
anything moves, and the same scene when everything has come to rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trilith.agents.replay import check_length
from trilith.networks.inputs.rigid_body_features import Array, Placed, bodies, falls, placed_arrays
from trilith.world.actions import reference_rows
from trilith.world.episode import State
from trilith.world.scene import SLOTS, Bools, Ints, Placement, Role, Scene, place
from trilith.world.trajectory import Trajectory

MOVED, TURNED = 0.02, 0.05
"""An object has moved if its displacement exceeds the first limit, in metres, or its rotation the second. Rotation is measured as the
distance between two unit vectors, one at twice the old angle and one at twice the new angle."""
SIMULATED = (None, "obstacle_hit", "complete", "max_steps")
"""The values that `State.ended` can have after a placement that was simulated (None: the episode continues). With any other value the
placement was not simulated, or its simulation failed."""


class Transition(NamedTuple):
    """A placement that was simulated, and its result."""

    state: State
    placement: Placement
    after: State
    reward: float


def transition_dtype(objects: int) -> np.dtype[Any]:
    """The dtype of a row of the table, without its columns `reward` and `left`. R is `objects`, the maximum number of objects in a scene.

    placed    the scene before anything moves, see `Placed`
    pose      (R, 3): poses at rest
    touch     (R, R): which pairs touch at rest
    moved     (R,): objects that came to rest away from their old pose or, for the new block, away from the end of a straight fall
    hit       whether an obstacle was touched; then nothing came to rest
    complete  whether the task was complete
    origin    (R,): index of each object in the previous row; -1 for the new block, and at the first placement
    """
    one, two = (objects,), (objects, objects)
    placed: list[Any] = [
        *(("objects", "i8"), ("new", "i8"), ("pose", "f4", (objects, 3)), ("size", "f4", (objects, 2))),
        *(("role", "i8", one), ("sticky", "?", one), ("touch", "?", two), ("glue", "?", two)),
    ]
    columns: list[Any] = [("placed", placed), ("pose", "f4", (objects, 3)), ("touch", "?", two), ("moved", "?", one)]
    return np.dtype([*columns, ("hit", "?"), ("complete", "?"), ("origin", "i8", one)])


@dataclass(frozen=True, eq=False)
class Transitions:
    """A table of T simulated placements, with those of an episode in order. It can be a ring (see `Replay`)."""

    rows: NDArray[Any]
    """(T,): a row for each of T placements. It has the columns of `transition_dtype` and two more: `reward` (f4), and `left` (u1), the
    number of steps to the end of the episode, including this one."""

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, column: str) -> NDArray[Any]:
        """The column with the name `column`: an array (T, ...) with an entry for each of T placements."""
        return self.rows[column]

    def placed(self, at: Ints) -> Placed:
        """The scenes of the B placements in the rows `at` (B,), each with the new block, before anything moves."""
        return Placed._make(self.rows["placed"][name][at] for name in Placed._fields)

    @cached_property
    def follows(self) -> Ints:
        """(T,): for each row, the index of the row with the next placement of the same episode; -1 if there is none."""
        return np.where(self.rows["left"] > 1, (np.arange(len(self)) + 1) % len(self), -1)

    @cached_property
    def eventful(self) -> Ints:
        """(E,): the indices of the E rows in whose column `moved` some object is marked. These are few."""
        return np.flatnonzero(self.rows["moved"].any(axis=1))


def simulated(episode: Trajectory) -> list[Transition]:
    """The placements of an episode that were simulated, with their results. The last placement is left out if the rules ended the episode
    without physics."""
    steps = zip(episode.states[:-1], episode.placements, episode.states[1:], episode.rewards, strict=True)
    return [Transition(s, placement, after, r) for s, placement, after, r in steps if placement is not None and after.ended in SIMULATED]


def placed_scene(state: State, placement: Placement) -> tuple[Scene, int]:
    """Adds the block of a placement to a state's scene without simulating it. Returns the scene, and the row of the block."""
    keep = state.rules.keeps_supply
    return place(state.scene, placement, keep=keep), len(state.scene) if keep else placement.slot


def transitions(episodes: Iterable[list[Transition]], objects: int = 0) -> Transitions:
    """Makes the table of all simulated placements of some episodes. Each episode is the result of `simulated`. Every row has room for the
    same number of objects: as many as the largest scene has, but at least `objects`. So tables of different episodes can have rows of the
    same dtype.

    Raises ValueError if there are no simulated placements, or if an episode is too long (see `check_length`).
    """
    steps, left = list[Transition](), list[int]()
    for episode in episodes:
        steps += episode
        check_length(len(episode))
        left += range(len(episode), 0, -1)
    if not steps:
        raise ValueError("there is nothing to learn from: no recorded placement was simulated")
    scenes, blocks = zip(*(placed_scene(each.state, each.placement) for each in steps), strict=True)
    placed = placed_arrays(scenes, blocks, objects)
    settled = placed_arrays([each.after.scene for each in steps], blocks, objects)
    rows = np.zeros(len(steps), [*transition_dtype(placed.role.shape[1]).descr, ("reward", "f4"), ("left", "u1")])
    for name, column in placed._asdict().items():
        rows["placed"][name] = column
    rows["pose"], rows["touch"], rows["moved"], rows["origin"] = settled.pose, settled.touch, _moved(placed, settled.pose), -1
    for t, each in enumerate(steps):
        rows["reward"][t], rows["left"][t] = each.reward, left[t]
        rows["hit"][t], rows["complete"][t] = each.after.ended == "obstacle_hit", each.after.ended == "complete"
        if left[t] > 1:
            before, now = reference_rows(scenes[t]), reference_rows(scenes[t + 1])
            old = now != blocks[t + 1]
            rows["origin"][t + 1, : len(now)][old] = np.searchsorted(before, now[old])
    return Transitions(rows)


def base_pose(placed: Placed) -> Array:
    """The poses (B, R, 3) of all objects of B scenes, if the new block falls straight down and nothing else moves."""
    base = placed.pose.copy()
    base[np.arange(len(base)), placed.new, 1] = falls(placed)[:, 0]
    return base


def _moved(placed: Placed, pose: Array) -> Bools:
    base = base_pose(placed)
    far = np.hypot(*(pose - base)[..., :2].transpose(2, 0, 1)) > MOVED
    turned = 2 * np.abs(np.sin(pose[..., 2] - base[..., 2])) > TURNED  # distance between the unit vectors at twice the angle
    moved: Bools = (far | turned) & ~bodies(placed)[1]
    return moved


def is_last(state: State) -> bool:
    """Whether the next placement is certainly the last of the episode, because it reaches the step limit or uses the last block."""
    supply = 2 if state.rules.keeps_supply else int((state.scene.role[:SLOTS] == Role.AVAILABLE).sum())
    return state.steps + 1 >= state.max_steps or supply < 2
