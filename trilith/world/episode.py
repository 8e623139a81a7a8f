"""The rules of an episode, written once: `start` and `step`. Playing, training, search and replay all call these two functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from trilith.utils.checks import check_boolean, require, shortened
from trilith.utils.compiled import compiled
from trilith.world.geometry.rectangles import Bools, Floats, overlaps_any
from trilith.world.physics import PHYSICS, Settled, settle
from trilith.world.scene import INVALID_EDGE, SLOTS, Placement, Role, Scene, checked_placement, clipped, is_number, place
from trilith.world.tasks import Level, Task, get_task

Reason = Literal[
    "bad_choice",
    "invalid_edge",
    "stopped",
    "spawn_collision",
    "obstacle_hit",
    "complete",
    "max_steps",
    "bad_simulation",
]
"""Why an episode ended. The values mean, in this order: the chosen block is not available; the edge is invalid; the agent stopped; the
block would overlap something solid; a block touched an obstacle; the task is complete; the step limit is reached, or no block is left; the
simulation gave a number that is not finite."""
_AVAILABLE = int(Role.AVAILABLE)
REASONS: tuple[Reason, ...] = get_args(Reason)


@dataclass(frozen=True)
class State:
    """A moment of an episode. A state is immutable: you can copy, compare, pickle and store it, and call `step` with it many times."""

    scene: Scene
    task: str
    level: Level
    steps: int = 0
    """Calls of `step` so far; a stop or an impossible placement counts too."""
    total: float = 0.0
    """Sum of the rewards so far."""
    ended: Reason | None = None
    """None while the episode continues."""

    @property
    def rules(self) -> Task:
        """The task of this episode."""
        return get_task(self.task)

    @property
    def max_steps(self) -> int:
        """Step limit of this episode."""
        return self.rules.max_steps(self.scene, self.level)

    def to_json(self) -> dict[str, Any]:
        """A dictionary for JSON. `from_json` restores an equal state from it."""
        return {
            "task": self.task,
            "level": self.level,
            "steps": self.steps,
            "total": self.total,
            "ended": self.ended,
            "scene": self.scene.to_json(),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> State:
        """Restores a state from the result of `to_json`. Raises ValueError, with the field that is wrong, if `data` is not a valid
        state."""
        require(isinstance(data, Mapping), f"a state is an object, not {type(data).__name__}")
        for name in ("task", "level", "steps", "total", "ended", "scene"):
            require(name in data, f"state has no field {name!r}")
        level, steps, total, ended = data["level"], data["steps"], data["total"], data["ended"]
        task = get_task(data["task"])
        require(
            not isinstance(level, bool) and isinstance(level, int | str) and task.check_level(level) == level,
            f"state field 'level' is {shortened(level)}: must be a level of {task.name} as a number or a name",
        )
        require(
            not isinstance(steps, bool) and isinstance(steps, int) and steps >= 0,
            f"state field 'steps' is {shortened(steps)}: must be a number of placements",
        )
        require(is_number(total), f"state field 'total' is {shortened(total)}: must be a finite number")
        known = ", ".join(REASONS)
        require(ended is None or ended in REASONS, f"state field 'ended' is {shortened(ended)}: must be null or one of {known}")
        return State(Scene.from_json(data["scene"]), task.name, level, steps, float(total), ended)


class Step(NamedTuple):
    """The outcome of one placement."""

    state: State
    reward: float
    settled: Settled | None
    """The result of physics; None if nothing was simulated."""


def start(task: str | Task, level: Level, rng: np.random.Generator) -> State:
    """The beginning of an episode. Draws the level if `level` is "all", and generates a scene, both from `rng`. A `Task` object
    must be one that `get_task` finds by its name, because the state stores only the name. Raises ValueError if there is no such task or
    level, or if `rng` is not a generator."""
    if not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng {shortened(rng)}: must be a numpy.random.Generator, such as numpy.random.default_rng(0)")
    rules = task if isinstance(task, Task) else get_task(task)
    get_task(rules.name)
    drawn = rules.draw_level(rng, level)
    return State(rules.generate(rng, drawn), rules.name, drawn)


def collides(scene: Scene, placement: Placement, rows: Bools) -> bool:
    """Whether the block of `placement` would overlap an object of the mask `rows` (N,). The placement is first clipped to the area where
    blocks may be."""
    x, y = clipped(placement.x, placement.y)
    w, h = scene.size[placement.slot].tolist()
    return overlaps_any(x, y, w, h, scene.pose, scene.size, rows)


def hit_obstacle(end: State, last: Placement | None) -> bool:
    """Whether an episode ended because of an obstacle: a block touched one, or the block of the last placement would have overlapped one.
    `end` is the final state, `last` the last placement, None if the agent stopped."""
    return end.ended == "obstacle_hit" or (
        end.ended == "spawn_collision" and last is not None and collides(end.scene, last, end.scene.role == Role.OBSTACLE)
    )


@compiled
def _is_finite(pose: Floats, velocity: Floats) -> bool:
    """Whether all poses (N, 3) and velocities (N, 3) are finite. Tests only their sum, because it is not finite if one of them is not."""
    total = 0.0
    for k in range(len(pose)):
        for i in range(3):
            total += pose[k, i] + velocity[k, i]
    return bool(np.isfinite(total))


def step(state: State, placement: Placement | None, zero_on_hit: bool = False, record: bool = False) -> Step:
    """Makes one placement and simulates its outcome. With None the agent stops: the episode ends and keeps its total.

    With `zero_on_hit`, an episode that touches an obstacle (or whose block would overlap one) has a return of exactly 0, as in the paper.
    Without it, the episode keeps its earlier rewards, as in the authors' package. With `record`, the poses of all physics steps are kept
    (`Settled.frames`). Raises ValueError if the episode has ended, or if `state`, `placement` or `zero_on_hit` is not valid.
    """
    if not isinstance(state, State):  # not `require`: its message would format the arrays of every state
        raise ValueError(f"state {shortened(state)}: must be a trilith.State, as trilith.start gives")
    if state.ended:
        raise ValueError(f"this episode has ended ({state.ended}): start another one")
    check_boolean("zero_on_hit", zero_on_hit)
    task, scene = state.rules, state.scene

    def result(scene: Scene, ended: Reason | None, reward: float = 0.0, settled: Settled | None = None) -> Step:
        after = State(scene, state.task, state.level, state.steps + 1, state.total + reward, ended)
        return Step(after, reward, settled)

    forfeited = 0.0 - state.total if zero_on_hit else 0.0
    if placement is None:
        return result(scene, "stopped")
    placement = checked_placement(placement)
    if placement == INVALID_EDGE:
        return result(scene, "invalid_edge")
    if scene.role[placement.slot] != _AVAILABLE:
        return result(scene, "bad_choice")
    if collides(scene, placement, scene.solid):
        at_obstacle = collides(scene, placement, scene.role == Role.OBSTACLE)
        return result(scene, "spawn_collision", forfeited if at_obstacle else 0.0)

    settled = settle(place(scene, placement, keep=task.keeps_supply), record)
    after = settled.scene
    if not _is_finite(after.pose, after.velocity):
        return result(scene, "bad_simulation", settled=settled)
    if settled.hit:
        return result(after, "obstacle_hit", forfeited, settled)
    score = task.score(after)
    reward = score - task.sticky_cost * int(np.count_nonzero(after.sticky)) - state.total
    if task.complete(after, score):
        return result(after, "complete", reward, settled)
    if state.steps + 1 >= task.max_steps(after, state.level) or _AVAILABLE not in after.role[:SLOTS].tolist():
        return result(after, "max_steps", reward, settled)
    return result(after, None, reward, settled)


BUILDER = 80
"""Maximum number of characters in the name of a recording's builder."""


@dataclass(frozen=True)
class Recording:
    """An episode as its first state and its placements. A replay restores every state, byte for byte."""

    start: State
    placements: tuple[Placement | None, ...]
    """None means that the builder stopped; only the last entry can be None."""
    zero_on_hit: bool = False
    physics: int = PHYSICS
    """Version of the physics of the episode. With another version the replay may differ."""
    by: str = ""
    """The name of the agent or person who built it, shown in films; empty if unknown."""

    def replay(self, record: bool = False) -> Iterator[Step]:
        """Simulates the episode again and yields its steps. With `record`, each step has the poses of all physics steps."""
        state = self.start
        for placement in self.placements:
            step_ = step(state, placement, self.zero_on_hit, record)
            yield step_
            state = step_.state

    def to_json(self) -> dict[str, Any]:
        """A dictionary for JSON. `from_json` restores an equal recording from it."""
        return {
            "start": self.start.to_json(),
            "placements": [None if p is None else [int(p.slot), float(p.x), float(p.y), bool(p.sticky)] for p in self.placements],
            "zero_on_hit": self.zero_on_hit,
            "physics": self.physics,
            **({"by": self.by} if self.by else {}),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Recording:
        """Restores a recording from the result of `to_json`. Raises ValueError, with the reason, if `data` is not a valid recording."""
        require(
            isinstance(data, Mapping) and isinstance(data.get("placements"), list) and "start" in data,
            "an episode is an object with the fields 'start' and 'placements'",
        )
        zero_on_hit = data.get("zero_on_hit", False)
        check_boolean("zero_on_hit", zero_on_hit)
        return Recording(
            State.from_json(data["start"]),
            tuple(None if p is None else checked_placement(p) for p in data["placements"]),
            zero_on_hit,
            physics_from_json(data),
            builder_from_json(data),
        )

    def note(self) -> str:
        """A warning if the episode was recorded with other physics, else ""."""
        note = f"recorded with version {self.physics} of the physics, replayed with version {PHYSICS}: blocks may move otherwise"
        return "" if self.physics == PHYSICS else note


def builder_from_json(data: Mapping[str, Any]) -> str:
    """The name of the builder in the JSON of a recording; empty if there is none. Raises ValueError if the name is not a printable text of
    at most `BUILDER` characters."""
    by = data.get("by", "")
    require(isinstance(by, str) and len(by) <= BUILDER and by.isprintable(), f"by: must be a name of at most {BUILDER} letters")
    return by


def physics_from_json(data: Mapping[str, Any]) -> int:
    """The version of the physics in the JSON of a recording, a result or a card. It is 1 if none is given, because version 1 did not write
    it. Raises ValueError if there is no such version."""
    version = data.get("physics", 1)
    require(
        not isinstance(version, bool) and isinstance(version, int) and 1 <= version <= PHYSICS,
        f"physics {shortened(version)}: must be a version, 1 to {PHYSICS}",
    )
    return version
