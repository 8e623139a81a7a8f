"""Recorded placements as a table that a model learns from: what was there, where the block was placed, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from trilith.agents.dynamics.rigid_body_features import Array, Placed, bodies, falls, placed_arrays
from trilith.world.actions import reference_rows
from trilith.world.episode import State
from trilith.world.scene import Bools, Ints, Placement, Scene, place
from trilith.world.tasks import get_task
from trilith.world.trajectory import Trajectory

MOVED, TURNED = 0.02, 0.05
"""Metres, and of the sine and cosine of twice the angle: what moves less is said to stay where it is, or where it fell."""
SIMULATED = (None, "obstacle_hit", "complete", "max_steps")
"""How placements end that physics had a part in; the others are known without."""


@dataclass(frozen=True)
class Transitions:
    """T placements that were simulated."""

    placed: Placed
    """Before anything moved."""
    pose: Array
    """(T, R, 3): where everything came to rest."""
    touch: Bools
    """(T, R, R): who then touched whom."""
    moved: Bools
    """(T, R): what came to rest elsewhere than it was or, of the new block, than right below."""
    reward: Array
    """(T,)"""
    hit: Bools
    """(T,): an obstacle was touched, so that nothing came to rest."""
    complete: Bools
    """(T,): there was nothing left to do."""
    follows: Ints
    """(T,): the placement that was next in the episode, -1: none."""
    origin: Ints
    """(T, R): which object of the placement before each one is; -1 for the new block, and at the first placement."""

    def __len__(self) -> int:
        return len(self.reward)

    @cached_property
    def eventful(self) -> Ints:
        """(E,): the placements that moved something, which are few."""
        return np.flatnonzero(self.moved.any(axis=1))


class Transition(NamedTuple):
    """A placement that physics had a part in, and what came of it."""

    state: State
    placement: Placement
    after: State
    reward: float


def simulated(episode: Trajectory) -> list[Transition]:
    """The placements of an episode that were simulated: all but, maybe, the last."""
    found = []
    for state, placement, after, reward in zip(episode.states[:-1], episode.placements, episode.states[1:], episode.rewards, strict=True):
        if placement is None or after.ended not in SIMULATED:
            break
        found.append(Transition(state, placement, after, reward))
    return found


def placed_scene(state: State, placement: Placement) -> tuple[Scene, int]:
    """A state's scene with the block of a placement in it, nothing simulated yet, and its row."""
    keep = state.rules.keeps_supply
    return place(state.scene, placement, keep=keep), len(state.scene) if keep else placement.slot


def transitions(episodes: Iterable[list[Transition]], objects: int = 0) -> Transitions:
    """The table of the simulated placements of episodes, with room for that many objects or more.

    Raises ValueError if physics had a part in none of them.
    """
    steps: list[Transition] = []
    follows: list[int] = []
    for episode in episodes:
        steps += episode
        follows += [*range(len(follows) + 1, len(steps)), -1][: len(episode)]
    if not steps:
        raise ValueError("there is nothing to learn from: no recorded placement was simulated")
    scenes, rows = zip(*(placed_scene(each.state, each.placement) for each in steps), strict=True)
    placed = placed_arrays(scenes, rows, objects)
    settled = placed_arrays([each.after.scene for each in steps], rows, objects)
    origin = np.full(placed.role.shape, -1)
    for t, nxt in enumerate(follows):
        if nxt >= 0:
            before, now = reference_rows(scenes[t]), reference_rows(scenes[nxt])
            old = now != rows[nxt]
            origin[nxt, : len(now)][old] = np.searchsorted(before, now[old])
    ended = [each.after.ended for each in steps]
    return Transitions(
        placed=placed,
        pose=settled.pose,
        touch=settled.touch,
        moved=_moved(placed, settled.pose),
        reward=np.array([each.reward for each in steps], np.float32),
        hit=np.array([reason == "obstacle_hit" for reason in ended]),
        complete=np.array([reason == "complete" for reason in ended]),
        follows=np.array(follows),
        origin=origin,
    )


def base_pose(placed: Placed) -> Array:
    """(B, R, 3): where everything would be if the new block fell straight down and nothing else moved."""
    base = placed.pose.copy()
    at = np.arange(len(base)), placed.new
    base[..., 1][at] = falls(placed.pose, placed.size, placed.role, placed.sticky, placed.objects, placed.new)[:, 0]
    return base


def _moved(placed: Placed, pose: Array) -> Bools:
    base = base_pose(placed)
    _, fixed = bodies(placed.glue, placed.role, placed.objects)
    far = np.hypot(*(pose - base)[..., :2].transpose(2, 0, 1)) > MOVED
    turned = 2 * np.abs(np.sin(pose[..., 2] - base[..., 2])) > TURNED  # |difference of the unit vectors of twice the angle|
    moved: Bools = (far | turned) & ~fixed
    return moved


def is_last(state: State) -> bool:
    """Whether the next placement is the last one in any case: by the step limit, or because no block is left after it."""
    supply = 2 if state.rules.keeps_supply else int((state.scene.role[:7] == 0).sum())
    return state.steps + 1 >= get_task(state.task).max_steps(state.scene, state.level) or supply < 2
