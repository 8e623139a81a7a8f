"""How a learned model is measured: what it predicts of recorded placements, one step and several steps on, against what happened.

A prediction several steps on is made of predictions, as in a search: the recorded placements are made in the predicted scenes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trilith.agents.dynamics.rigid_body_features import placed_arrays
from trilith.agents.dynamics.transitions import SIMULATED, Transition, base_pose, is_last, placed_scene, simulated
from trilith.agents.dynamics.world import ModelWorld, Outcome
from trilith.search.agent import Valuer
from trilith.utils.compiled import compiled
from trilith.world.actions import reference_rows
from trilith.world.episode import State, step
from trilith.world.geometry.rectangles import gap
from trilith.world.physics import settle
from trilith.world.scene import Bools, Floats, Placement, Role, Scene
from trilith.world.trajectory import Trajectory

DEPTH = 4
"""Steps that are predicted one after another."""
OLD, NEW = 0.05, 0.20
"""Metres: something happens to a block that was there if it moves more than the first, to the new one if it ends further from where
it was placed than the second."""
NUDGE = 0.001
"""Metres by which a placement is moved to see how well anybody could know what comes of it."""
DEEP = 0.02
"""Metres by which objects of a predicted scene overlap visibly; at rest they do by up to 0.014."""
BINS = 10
GROUP = 128
"""Predictions that are made at once."""


def chains(episodes: Iterable[Trajectory]) -> list[list[Transition]]:
    """From every simulated placement of episodes on: the placements that followed, up to `DEPTH`."""
    found = []
    for episode in episodes:
        steps = simulated(episode)
        found += [steps[k : k + DEPTH] for k in range(len(steps))]
    return found


def tried_first(agent: Valuer, states: Sequence[State], count: int = 8) -> list[list[Transition]]:
    """What comes of the placements that an agent values highest in each state: where a search looks first."""
    found = []
    for state, prior in zip(states, agent.priors(states), strict=True):
        for k in np.argsort(-prior.values, kind="stable")[:count].tolist():
            placement = agent.decode(state, int(prior.ids[k]))
            if placement is not None:
                after, reward, _ = step(state, placement)
                if after.ended in SIMULATED:
                    found.append([Transition(state, placement, after, reward)])
    return found


@dataclass(frozen=True)
class Compared:
    """A prediction beside what happened."""

    happened: Transition
    depth: int
    ended: float
    """Predicted probability that it was the end, if that could not be known."""
    learned: float
    scored: float
    """Predicted reward: by the network, and of the predicted scene by the task's rule."""
    off: Floats
    """(K,): metres by which the centre of each block that something happens to is predicted wrongly; none if an obstacle was touched."""
    base_off: Floats
    """(K,): the same if nothing moves but the new block falls straight down, at every step."""
    new: Bools
    """(K,): which of them is the new block."""
    contacts: int
    """Pairs that touch in one of the two scenes and not in the other."""
    overlaps: bool
    """Whether objects of the predicted scene overlap visibly, though none was touched that ends the episode."""


def compare(world: ModelWorld, all_chains: Sequence[list[Transition]]) -> list[Compared]:
    """Every prediction along chains, the first from the true state, each other from the prediction before it."""
    found: list[Compared] = []
    for begin in range(0, len(all_chains), GROUP):
        group = list(all_chains[begin : begin + GROUP])
        states = [chain[0].state for chain in group]
        bases = [state.scene for state in states]
        for depth in range(DEPTH):
            alive = [k for k, chain in enumerate(group) if len(chain) > depth]
            if not alive:
                break
            asked = [(states[k], group[k][depth].placement) for k in alive]
            fallen = _fallen([(State(bases[k], s.task, s.level), p) for k, (s, p) in zip(alive, asked, strict=True)])
            for k, outcome, base in zip(alive, world.predict(asked), fallen, strict=True):
                happened = group[k][depth]
                found.append(_compared(world, states[k], outcome, base, happened, depth + 1))
                rules = happened.state.rules
                total = rules.score(outcome.scene) - rules.sticky_cost * int(outcome.scene.sticky.sum())
                states[k] = State(outcome.scene, happened.after.task, happened.after.level, happened.after.steps, total)
                bases[k] = base
    return found


def _fallen(asked: Sequence[tuple[State, Placement]]) -> list[Scene]:
    """The scenes after placements if nothing moved but the new block fell straight down."""
    scenes, rows = zip(*(placed_scene(state, placement) for state, placement in asked), strict=True)
    placed = placed_arrays(scenes, rows)
    heights = base_pose(placed)[np.arange(len(rows)), placed.new, 1]
    found = []
    for scene, row, height in zip(scenes, rows, heights.tolist(), strict=True):
        pose = scene.pose.copy()
        pose[row, 1] = height
        found.append(Scene(pose, scene.size, scene.velocity, scene.role, scene.sticky, scene.contact, scene.glue, scene.glue_frame))
    return found


def _compared(world: ModelWorld, state: State, outcome: Outcome, base: Scene, happened: Transition, depth: int) -> Compared:
    true, hit = happened.after.scene, happened.after.ended == "obstacle_hit"
    rows, new = _eventful(happened)
    rows = rows[:0] if hit else rows
    off, base_off = (np.hypot(*(scene.pose[rows, :2] - true.pose[rows, :2]).T) for scene in (outcome.scene, base))
    pairs = [{tuple(pair) for pair in scene.contact.tolist()} for scene in (outcome.scene, true)]
    ended = 1 - (1 - outcome.hit) * (1 - outcome.complete)
    scored = world._after(state, outcome)[1]
    return Compared(
        happened, depth, ended, outcome.reward, scored, off, base_off, rows == new,
        0 if hit else len(pairs[0] ^ pairs[1]), not hit and overlapping(outcome.scene),
    )  # fmt: skip


def _eventful(happened: Transition) -> tuple[NDArray[np.int64], int]:
    """Rows of the blocks that something happens to, and that of the new block."""
    scene, new = placed_scene(happened.state, happened.placement)
    blocks = scene.rows(Role.BLOCK)
    far = np.hypot(*(happened.after.scene.pose[blocks, :2] - scene.pose[blocks, :2]).T)
    return blocks[far > np.where(blocks == new, NEW, OLD)], new


def nudged(happened: Transition) -> Floats | None:
    """(K,): how far the blocks that something happens to end elsewhere if the placement is moved by 1 mm; None if it then fails."""
    x, y = happened.placement.x, happened.placement.y
    scene, _ = placed_scene(happened.state, happened.placement._replace(x=x + (NUDGE if x < 0 else -NUDGE), y=y))
    settled = settle(scene)
    rows, _ = _eventful(happened)
    return None if settled.hit else np.hypot(*(settled.scene.pose[rows, :2] - happened.after.scene.pose[rows, :2]).T)


def overlapping(scene: Scene) -> bool:
    """Whether any two solid objects of a scene, at least one a block, overlap by more than `DEEP`."""
    rows = reference_rows(scene)
    rows = rows[scene.solid[rows]]
    return bool(_overlapping(scene.pose[rows], np.maximum(scene.size[rows] - DEEP, 0.01), scene.role[rows] == Role.BLOCK))


@compiled
def _overlapping(pose: Floats, size: Floats, block: Bools) -> bool:
    for i in range(len(pose)):
        for j in range(i):
            near = (size[i, 0] + size[i, 1] + size[j, 0] + size[j, 1]) / 2
            if (block[i] or block[j]) and hypot(pose[i, 0] - pose[j, 0], pose[i, 1] - pose[j, 1]) < near:
                apart = gap(
                    pose[i, 0], pose[i, 1], pose[i, 2], size[i, 0], size[i, 1], pose[j, 0], pose[j, 1], pose[j, 2], size[j, 0], size[j, 1]
                )  # fmt: skip
                if apart == 0.0:
                    return True
    return False


def figures(compared: Sequence[Compared]) -> dict[str, Any]:
    """What comparisons of one depth say. Of ends, those count that could not be known: by the step limit, or for want of blocks."""
    hits = np.array([each.happened.after.ended == "obstacle_hit" for each in compared])
    open_ = [each for each in compared if not is_last(each.happened.state)]
    truth = np.array([each.happened.after.ended is not None for each in open_], dtype=np.float64)
    said = np.array([each.ended for each in open_])
    reward = np.array([each.happened.reward for each in compared])
    variance = float(reward.var())
    found: dict[str, Any] = {"placements": len(compared), "hit": float(hits.mean())}
    if len(open_):
        constant = float(truth.mean() * (1 - truth.mean()))
        found |= {"brier": float(((said - truth) ** 2).mean()), "brier_constant": constant, "reliability": reliability(said, truth)}
    for name in ("learned", "scored"):
        wrong = np.array([getattr(each, name) for each in compared]) - reward
        found[f"reward_{name}"] = float((wrong**2).mean()) / variance if variance else 0.0
    off, base, new = (np.concatenate([getattr(each, name) for each in compared]) for name in ("off", "base_off", "new"))
    found["eventful"] = len(off)
    if len(off):
        found |= {"pose": float(off.mean()), "pose_base": float(base.mean())}
    for name, rows in (("new", new), ("old", ~new)):
        if rows.any():
            found |= {f"pose_{name}": float(off[rows].mean()), f"pose_base_{name}": float(base[rows].mean()), name: int(rows.sum())}
    settled = max(int((~hits).sum()), 1)
    found["contacts"] = sum(each.contacts for each in compared) / settled
    found["overlaps"] = sum(each.overlaps for each in compared) / settled
    found["overlaps_true"] = (
        sum(overlapping(each.happened.after.scene) for each, hit in zip(compared, hits, strict=True) if not hit) / settled
    )
    return found


def reliability(said: Floats, truth: Floats) -> list[tuple[float, float, int]]:
    """For ten equal ranges of a predicted probability: its mean, how often it came true, and how many there are; empty ones left out."""
    bins = np.minimum((said * BINS).astype(int), BINS - 1)
    return [
        (float(said[bins == k].mean()), float(truth[bins == k].mean()), int((bins == k).sum())) for k in range(BINS) if (bins == k).any()
    ]


def nudge_error(all_chains: Sequence[list[Transition]], most: int = 1000) -> float | None:
    """Mean of `nudged` over the first eventful placements: as well as anybody could know; None if there are none."""
    off: list[float] = []
    for chain in all_chains:
        first = chain[0]
        if len(off) < most and first.after.ended != "obstacle_hit" and len(_eventful(first)[0]):
            found = nudged(first)
            off += [] if found is None else found.tolist()
    return float(np.mean(off)) if off else None


def report(world: ModelWorld, all_chains: Sequence[list[Transition]]) -> dict[str, Any]:
    """Figures by task, by level ("all": of all levels) and by depth."""
    compared = compare(world, all_chains)
    found: dict[str, Any] = {}
    for task in sorted({each.happened.state.task for each in compared}):
        mine = [each for each in compared if each.happened.state.task == task]
        levels = sorted({each.happened.state.level for each in mine}, key=str)
        found[task] = {
            str(level): {
                str(depth): figures(some)
                for depth in range(1, DEPTH + 1)
                if (some := [each for each in mine if each.depth == depth and level in ("all", each.happened.state.level)])
            }
            for level in ("all", *levels)
        }
    return found
