"""Measures the errors of a learned transition model: compares its predictions for recorded placements with the simulator's results, one to
`DEPTH` steps ahead.

To predict several steps ahead, each recorded placement is made in the scene that was predicted for the placement before it. A search uses
the model in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trilith.agents.dynamics.transitions import SIMULATED, Transition, base_pose, is_last, placed_scene, simulated
from trilith.agents.dynamics.world import ModelWorld
from trilith.networks.inputs.rigid_body_features import placed_arrays
from trilith.search.agent import Valuer
from trilith.world.episode import State, step
from trilith.world.geometry.rectangles import touching
from trilith.world.physics import settle
from trilith.world.scene import Bools, Floats, Placement, Role, Scene
from trilith.world.trajectory import Trajectory

DEPTH = 4
"""Maximum number of steps that are predicted ahead."""
OLD, NEW = 0.05, 0.20
"""Limits in metres that define which blocks a placement affects. A block that was placed earlier is affected if its centre moves by more
than `OLD`. The new block is affected if its centre comes to rest more than `NEW` away from its placed position."""
NUDGE = 0.001
"""Metres by which a placement is shifted to estimate the error that no prediction can avoid."""
DEEP = 0.02
"""Limit in metres: objects of a predicted scene overlap visibly if their overlap is larger. In the simulator, objects at rest overlap by up
to 0.014."""
BINS = 10
PREDICTED_AT_ONCE = 128
"""Number of predictions in one batch."""


def chains(episodes: Iterable[Trajectory]) -> list[list[Transition]]:
    """Returns the chains of placements to predict. A chain is a list of at most `DEPTH` consecutive placements of one episode. A chain
    starts at every simulated placement, so chains overlap."""
    return [steps[k : k + DEPTH] for episode in episodes for steps in (simulated(episode),) for k in range(len(steps))]


def tried_first(agent: Valuer, states: Sequence[State], count: int = 8) -> list[list[Transition]]:
    """Simulates, in each state, the `count` placements to which an agent gives the highest values. A search would try these first. Returns
    each placement as a list of one transition, as `compare` takes it. Placements that end the episode without physics are left out."""
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
    """The prediction for one placement, compared with the simulator's result `happened`."""

    happened: Transition
    depth: int
    """How many steps ahead the placement was predicted, from 1 to `DEPTH`. A prediction of depth 1 starts from a true state."""
    ended: float
    """Predicted probability that this placement ended the episode. It is 1 if the episode certainly ends, because of the step limit or
    because no block is left."""
    learned: float
    scored: float
    """Two predicted rewards. `learned` is an output of the network. `scored` is the expected reward by the rules of the task, computed from
    the predicted scene and the predicted probability that an obstacle is touched."""
    off: Floats
    """(K,), for the K blocks that the placement affected (see `OLD`): the distance in metres between the predicted and the true centre.
    Empty if an obstacle was touched."""
    base_off: Floats
    """(K,): like `off`, but for a baseline instead of the model. In the baseline the new block falls straight down at every step, and
    nothing else moves."""
    new: Bools
    """(K,): for each of the K blocks in `off`, whether it is the new one."""
    contacts: int
    """Number of wrong contacts: pairs of objects that touch either in the predicted scene or in the true one, but not in both. 0 if an
    obstacle was touched."""
    overlaps: bool
    """Whether objects of the predicted scene overlap visibly (see `DEEP`). False if an obstacle was touched."""


def compare(world: ModelWorld, all_chains: Sequence[list[Transition]]) -> list[Compared]:
    """Predicts every placement of every chain, and compares each prediction with the simulator's result. A chain is a list of at most
    `DEPTH` consecutive placements of one episode. Its first prediction starts from the true state, each later one from the previous
    prediction. The results are not sorted by chain."""
    found: list[Compared] = []
    for begin in range(0, len(all_chains), PREDICTED_AT_ONCE):
        group = [(chain, chain[0].state, chain[0].state) for chain in all_chains[begin : begin + PREDICTED_AT_ONCE]]
        for depth in range(DEPTH):
            group = [each for each in group if len(each[0]) > depth]
            if not group:
                break
            outcomes = world.predict([(state, chain[depth].placement) for chain, state, _ in group])
            bases = _fallen([(base, chain[depth].placement) for chain, _, base in group])
            for k, ((chain, state, _), outcome, base) in enumerate(zip(group, outcomes, bases, strict=True)):
                after, scored, ended = world.after(state, outcome)
                found.append(_compared(chain[depth], depth + 1, ended, outcome.reward, scored, after.scene, base.scene))
                group[k] = (chain, after, base)
    return found


def _fallen(asked: Sequence[tuple[State, Placement]]) -> list[State]:
    """Returns the state after each (state, placement) of `asked`, as the baseline predicts it: the new block falls straight down, and
    nothing else moves."""
    scenes, rows = zip(*(placed_scene(state, placement) for state, placement in asked), strict=True)
    placed = placed_arrays(scenes, rows)
    poses = [scene.pose.copy() for scene in scenes]
    for pose, row, height in zip(poses, rows, base_pose(placed)[np.arange(len(rows)), placed.new, 1], strict=True):
        pose[row, 1] = height
    return [replace(state, scene=replace(scene, pose=pose)) for (state, _), scene, pose in zip(asked, scenes, poses, strict=True)]


def _compared(happened: Transition, depth: int, ended: float, learned: float, scored: float, predicted: Scene, base: Scene) -> Compared:
    true, hit = happened.after.scene, happened.after.ended == "obstacle_hit"
    rows, new = _eventful(happened)
    rows = rows[:0] if hit else rows
    off, base_off = (np.hypot(*(scene.pose[rows, :2] - true.pose[rows, :2]).T) for scene in (predicted, base))
    wrong = {*map(tuple, predicted.contact.tolist())} ^ {*map(tuple, true.contact.tolist())}
    return Compared(
        happened, depth, ended, learned, scored, off, base_off, rows == new,
        0 if hit else len(wrong), not hit and overlapping(predicted),
    )  # fmt: skip


def _eventful(happened: Transition) -> tuple[NDArray[np.int64], int]:
    """Returns two values: the scene rows (K,) of the blocks that a placement affected (see `OLD`), and the row of the new block."""
    scene, new = placed_scene(happened.state, happened.placement)
    blocks = scene.rows(Role.BLOCK)
    far = np.hypot(*(happened.after.scene.pose[blocks, :2] - scene.pose[blocks, :2]).T)
    return blocks[far > np.where(blocks == new, NEW, OLD)], new


def nudged(happened: Transition) -> Floats | None:
    """Simulates a placement again, shifted by 1 mm towards x = 0. Returns an array (K,) for the K blocks that the original placement
    affected (see `OLD`): the distance in metres between their final positions with and without the shift. None if a block touches an
    obstacle after the shift."""
    x, y = happened.placement.x, happened.placement.y
    scene, _ = placed_scene(happened.state, happened.placement._replace(x=x + (NUDGE if x < 0 else -NUDGE), y=y))
    settled = settle(scene)
    rows, _ = _eventful(happened)
    return None if settled.hit else np.hypot(*(settled.scene.pose[rows, :2] - happened.after.scene.pose[rows, :2]).T)


def overlapping(scene: Scene) -> bool:
    """Whether any block of a scene overlaps another solid object by more than `DEEP` metres."""
    smaller = np.maximum(scene.size - DEEP, 0.01)
    return len(touching(scene.pose, smaller, scene.solid, scene.role == Role.BLOCK, 0.0)) > 0


def figures(compared: Sequence[Compared]) -> dict[str, Any]:
    """Maps names to mean errors over comparisons (one or more) of one depth. Names without data are missing.

    placements      number of comparisons
    hit             fraction of the placements after which a block touched an obstacle
    brier           Brier score of the predicted probabilities that the episode ended
    brier_constant  Brier score of the best constant prediction
    reliability     calibration of the same probabilities, see `reliability`
    reward_learned  mean squared error of `Compared.learned`, divided by the variance of the reward; 0 if this variance is 0
    reward_scored   as reward_learned, for `Compared.scored`
    eventful        number of affected blocks; new: those just placed; old: those placed before
    pose            mean of `Compared.off` in metres; pose_new, pose_old: means over new and over old blocks
    pose_base       mean of `Compared.base_off` in metres; pose_base_new, pose_base_old: means over new and over old blocks
    contacts        mean number of wrong contacts
    overlaps        fraction of the predicted scenes with a visible overlap
    overlaps_true   fraction of the true scenes with a visible overlap

    Placements that certainly end the episode, because of the step limit or because no block is left, do not count for brier, brier_constant
    and reliability. Placements after which an obstacle was touched do not count for eventful and the names below it.
    """
    settled = [each for each in compared if each.happened.after.ended != "obstacle_hit"]
    open_ = [each for each in compared if not is_last(each.happened.state)]
    reward = np.array([each.happened.reward for each in compared])
    variance = float(reward.var())
    found: dict[str, Any] = {"placements": len(compared), "hit": (len(compared) - len(settled)) / len(compared)}
    if open_:
        truth = np.array([each.happened.after.ended is not None for each in open_], dtype=np.float64)
        said = np.array([each.ended for each in open_])
        constant = float(truth.mean() * (1 - truth.mean()))
        found |= {"brier": float(((said - truth) ** 2).mean()), "brier_constant": constant, "reliability": reliability(said, truth)}
    for name in ("learned", "scored"):
        wrong = np.array([getattr(each, name) for each in compared]) - reward
        found[f"reward_{name}"] = float((wrong**2).mean()) / variance if variance else 0.0
    off, base, new = (np.concatenate([getattr(each, name) for each in compared]) for name in ("off", "base_off", "new"))
    found["eventful"] = len(off)
    for name, rows in (("", new | True), ("_new", new), ("_old", ~new)):
        if rows.any():
            found |= {f"pose{name}": float(off[rows].mean()), f"pose_base{name}": float(base[rows].mean())}
            found |= {name[1:]: int(rows.sum())} if name else {}
    wrongs = ("contacts", [each.contacts for each in settled]), ("overlaps", [each.overlaps for each in settled])
    for name, counts in (*wrongs, ("overlaps_true", [overlapping(each.happened.after.scene) for each in settled])):
        found[name] = sum(counts) / max(len(settled), 1)
    return found


def reliability(said: Floats, truth: Floats) -> list[tuple[float, float, int]]:
    """Returns the calibration of predicted probabilities. `said` has the probabilities; `truth` is 1 where the event happened, else 0. The
    range from 0 to 1 is divided into ten equal bins. Each bin gives (mean prediction, frequency of the event, number of predictions),
    lowest bin first. Empty bins are left out."""
    bins = np.minimum((said * BINS).astype(int), BINS - 1)
    return [
        (float(said[bins == k].mean()), float(truth[bins == k].mean()), int((bins == k).sum())) for k in range(BINS) if (bins == k).any()
    ]


def nudge_error(all_chains: Sequence[list[Transition]], most: int = 1000) -> float | None:
    """Estimates the error in metres that no prediction can avoid. `all_chains` has lists of consecutive placements. The first placement of
    each list is simulated again, shifted by 1 mm. The result is the mean of the distances that `nudged` returns. Stops after about `most`
    blocks. None if no block is measured."""
    off: list[float] = []
    for chain in all_chains:
        first = chain[0]
        if len(off) < most and first.after.ended != "obstacle_hit" and len(_eventful(first)[0]):
            found = nudged(first)
            off += [] if found is None else found.tolist()
    return float(np.mean(off)) if off else None


def report(world: ModelWorld, all_chains: Sequence[list[Transition]]) -> dict[str, Any]:
    """Returns mean errors (see `figures`) as nested dictionaries, with task, level and depth as keys. All keys are text. The level "all"
    has the placements of all levels together. A depth without placements is missing. `all_chains` has lists of consecutive placements (see
    `chains`)."""
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
