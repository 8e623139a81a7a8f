"""Box2D behind one pure function: `settle(scene)` simulates until all blocks are at rest. Only this module imports the engine.

Each call builds a new engine world from the arrays of the scene, so no state is hidden in engine objects. The same input bytes give the
same output bytes in any process. So a state of an episode can be copied and stored, and a search can start from it.

Glue is rigid. Bonded rows are one body with several shapes. Rows bonded to the floor are fixed like the floor itself. A bond that forms
during the simulation becomes rigid at that moment. The weld joints of the engine are not used, because they bend.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import atan2, cos, sin
from typing import Any, NamedTuple

import numpy as np
import pyb2d3

from trilith.world.bonds import Box, bond, first_touch, join, meet, spread
from trilith.world.geometry.rectangles import TOUCH, Floats, gap
from trilith.world.geometry.rigid_groups import glued_groups
from trilith.world.scene import FLOOR, LARGE, Role, Scene

PHYSICS = 2
"""Version of `settle`. Results, recordings and weights store it, because with another version blocks come to rest elsewhere.

1: bonds were weld joints, and the world was at rest when the engine let it sleep. 2: bonds are rigid, and our own rule decides when the
world is at rest (`REST_SPEED`).
"""
GRAVITY = -9.8
FRICTION = 0.4
DENSITY = 1.0
ANGULAR_DAMPING = 0.05
TIME_STEP = 0.02
SUB_STEPS = 4
CONTACT_TUNING = (30.0, 5.0, 3.0)
"""Hertz, damping ratio and push-out speed (m/s) of the engine's contacts. The engine's default ratio of 10 lets blocks creep longer.

Measured by `benchmarks/rest.py` on 303 to 318 placements per task, chosen by planner and script: the mean number of physics steps to
rest, and the largest movement of any block between rest and the end of the 20 s.
    damping ratio    Silhouette       Connecting      Covering         Covering Hard
    10               18.0  0.64 mm    5.7  0.02 mm    28.6  0.38 mm    25.5  0.35 mm
    5                16.8  0.78 mm    5.7  0.01 mm    24.5  0.29 mm    23.3  0.21 mm
    2                16.6  0.45 mm    5.7  0.00 mm    23.5  0.45 mm    24.2  0.22 mm
The ratio 10 needs up to a sixth more steps than 5. The ratio 2 needs about as many as 5, but with the engine's sleep turned off (see
`REST_SPEED`) one block of Covering Hard keeps creeping until it falls. Each largest movement is that of a single block, so these numbers
do not rank the ratios.
"""
MAX_STEPS = 1000
"""Maximum number of physics steps: 20 s, long enough for everything that comes to rest at all."""
REST_SPEED = 0.002
"""m/s: a block stands still if its speed is at most this, and its angular velocity at most `_REST_SPIN`, at which the ends of a large
block move this fast.

Measured as in the table of `CONTACT_TUNING`, with the damping ratio of 5:
    rest speed    Silhouette       Connecting      Covering         Covering Hard
    0.001         19.1  0.17 mm    5.7  0.00 mm    27.6  0.11 mm    25.0  0.17 mm
    0.002         16.8  0.78 mm    5.7  0.01 mm    24.5  0.29 mm    23.3  0.21 mm
    0.005         14.3  1.03 mm    6.0  0.01 mm    21.2  0.59 mm    20.6  2.93 mm
In these measurements the engine also puts a block to sleep, motionless, after 0.5 s below 0.05 m/s. With sleep turned off, a few blocks
continue to slide slowly after rest: at the rest speed 0.002 by up to 10.8 mm in Covering, 1.7 in Covering Hard, 0.8 in Silhouette, 0.01 in
Connecting.
"""
REST_STEPS = 5
"""The world is at rest when every block has stood still for this number of physics steps in a row."""
FAST = 0.1
"""m/s: a block faster than this turns visibly within the physics step in which it hits another. So it is bonded at the pose of the first
touch."""

GROUND_Y = -10.0
"""y in metres of a ground far below every picture. A block that falls off the floor comes to rest there.

The floor is 28 m long, and blocks are placed up to 7.5 m from its middle, so only a collapsing tower can fall off. Without a ground, such a
block would keep falling for all 20 s of this placement and of every later one.
"""
_GROUND = 1_000_000
"""The `user_data` of the ground's shape. Other shapes have the row of their object there."""

Motion = tuple[float, float, float, float, float, float]
"""x, y, angle, v_x, v_y and angular velocity of a body."""

# Plain numbers, because accessing a member of an enumeration takes as long as a call of the engine.
_BLOCK, _OBSTACLE, _FLOOR = int(Role.BLOCK), int(Role.OBSTACLE), int(Role.FLOOR)
_REST_SPIN = REST_SPEED / (LARGE / 2)


class Settled(NamedTuple):
    """The result of `settle`."""

    scene: Scene
    """The scene at rest; or after the physics step in which an obstacle was hit; or after 20 s."""
    hit: bool
    """Whether a block touched an obstacle."""
    steps: int
    """Number of physics steps simulated."""
    frames: Floats | None
    """(steps + 1, N, 3): poses before the first step and after each step; None if they were not recorded."""


def settle(scene: Scene, record: bool = False, early_stop: bool = True) -> Settled:
    """Simulates until the world is at rest, a block touches an obstacle, or 20 s have passed. With `record`, keeps the poses of all steps.

    The engine reports a contact up to 0.02 m before the shapes meet, so its events only give candidate pairs. Two rows touch if the gap
    between their rectangles is at most `rectangles.TOUCH`. Rows that touch bond if one of them is sticky. If one of them is an obstacle,
    the simulation ends.

    With `early_stop=False` the simulation continues after the world is at rest. Tests use this to show that almost nothing happens then.
    """
    world = engine_world()
    world.set_contact_tuning(*CONTACT_TUNING)
    try:
        return _World(world, scene).run(record, early_stop)
    finally:
        world.destroy()  # the engine has room for 128 worlds, so do not wait for the garbage collector


def engine_world() -> pyb2d3.WorldView:
    """Makes an empty world of the engine. The caller must destroy it.

    The class `pyb2d3.World` is not used: if Ctrl-C interrupts its constructor, the incomplete object prints an error when Python deletes
    it.
    """
    return pyb2d3.WorldView(pyb2d3.create_world_id(pyb2d3.world_def(gravity=(0.0, GRAVITY))))


@dataclass(slots=True, eq=False)
class _Rigid:
    """One moving body: a block, or several that glue holds together."""

    body: pyb2d3.Body
    rows: list[int]
    local: Floats | None
    """(R, 3): x, y and angle of each of the R rows in the frame of the body, whose origin is the centre of mass. None if there is only one
    row."""
    speed: Callable[[], float]
    """Returns the current speed of the centre of mass in m/s."""

    def moves(self) -> bool:
        """Whether the body is faster than `REST_SPEED` or `_REST_SPIN`."""
        return self.speed() > REST_SPEED or abs(self.body.angular_velocity) > _REST_SPIN

    def now(self) -> tuple[Any, Any, Any, float]:
        """The current motion in engine types: position, rotation, velocity and angular velocity."""
        body = self.body
        return body.position, body.rotation, body.linear_velocity, body.angular_velocity

    def pose(self) -> tuple[float, float, float]:
        """The current x, y and angle."""
        return _pose(self.body.position, self.body.rotation)


def _pose(position: Any, rotation: Any) -> tuple[float, float, float]:
    """Converts a position and a rotation of the engine to plain x, y and angle."""
    return position.x, position.y, atan2(rotation.s, rotation.c)  # the engine's own arctangent is an approximation


def _motion(position: Any, rotation: Any, velocity: Any, spin: float) -> Motion:
    """Converts a motion in engine types to plain numbers."""
    return *_pose(position, rotation), velocity.x, velocity.y, spin


class _World:
    """A scene in the engine.

    Everything that cannot move is a shape of one static body: ground, floor, obstacles, and blocks bonded to the floor. Every other block,
    or group of bonded blocks, is a body of its own. Bodies are made in the order of their lowest rows and shapes in row order, so the
    engine's results depend on the scene alone.
    """

    def __init__(self, world: pyb2d3.WorldView, scene: Scene) -> None:
        self.world, self.scene = world, scene
        self.pose, self.velocity = scene.pose.copy(), scene.velocity.copy()
        """Poses and velocities of all rows. For rows that move they are those of the last `_look`."""
        self.size: list[list[float]] = scene.size.tolist()
        self.role: list[int] = scene.role.tolist()
        self.sticky: list[bool] = scene.sticky.tolist()
        self.glue, self.glue_frame = scene.glue, scene.glue_frame
        self.gluing = True in self.sticky
        self.watching = self.gluing or _OBSTACLE in self.role
        """Whether any contact matters: whether there is a sticky block or an obstacle."""
        self.hit = False
        self.contact = scene.contact
        """The pairs that touched at the last `_meet`. The first `_meet` comes before the first physics step, because this step may separate
        pairs."""
        if self.watching:
            self._meet()

        self.moving: dict[int, _Rigid] = {}
        """Maps each row that can move to its body. Rows of one body share it."""
        self.bodies: list[_Rigid] = []
        """Every body once. When `_anything_moves` finds a body in motion, it moves this body to the front. This order is also the order in
        which `_build` destroys bodies, so another order may change the bytes of the engine's results."""
        self.before: dict[_Rigid, tuple[Any, Any, Any, float]] = {}
        """If something is sticky: maps each fast body to its motion before the last physics step, as `now` returns it."""
        self.loose = [row for row, role in enumerate(self.role) if role == _BLOCK]
        """Rows of the blocks that are not bonded to the floor, as of the last `_build`."""
        self.fixed: list[int] = []
        """Rows of the blocks that are bonded to the floor, directly or through other blocks."""
        self.definition = pyb2d3.body_def(type=pyb2d3.BodyType.DYNAMIC, angular_damping=ANGULAR_DAMPING)
        self.shape = _shape().copy()
        self.static = world.create_body_from_def(pyb2d3.BodyDef())
        self.shape.user_data = _GROUND
        self.static.create_polygon_shape(self.shape, _ground())
        self._build([row for row, role in enumerate(self.role) if role in (_OBSTACLE, _FLOOR)])
        self.shape.invoke_contact_creation = True  # a row that becomes fixed later may have neighbours that do not move

    def run(self, record: bool, early_stop: bool) -> Settled:
        """Simulates to the end that `settle` describes, and returns the result."""
        frames = [self.scene.pose] if record else None
        pending: dict[tuple[int, int], None] = {}  # candidate pairs, in the order the engine named them
        advance, contacts, watching, gluing = self.world.step, self.world.get_contact_events, self.watching, self.gluing
        steps = still = 0
        while not self.hit and steps < MAX_STEPS and not (early_stop and (still == REST_STEPS or not self.bodies)):
            advance(TIME_STEP, SUB_STEPS)
            steps += 1
            if watching and (events := contacts()).begin_count:
                for event in events.begin_events():
                    i, j = sorted((event.shape_a.user_data, event.shape_b.user_data))
                    if j != _GROUND:
                        pending[i, j] = None
            met = [pair for pair in pending if self._touch(*pair)] if pending else None
            if met:
                known = len(self.glue)
                self._bond(met)
                bonded = set(map(tuple, self.glue[known:].tolist()))
                pending = {pair: None for pair in pending if pair not in bonded}
            still = 0 if met or self._anything_moves() else still + 1
            if gluing:
                self.before = {}
                for rigid in () if still else self.bodies:  # a comprehension would cost a function call in every step
                    if rigid.speed() > FAST:
                        self.before[rigid] = rigid.now()
            if frames is not None:
                self._look()
                frames.append(self.pose.copy())

        resting = still >= REST_STEPS or not self.bodies
        self._look(resting)
        if resting:
            self.velocity = np.zeros(self.velocity.shape)
        else:
            self.velocity[self.fixed] = 0.0
        if self.bodies or not steps:
            self._meet()  # also counts blocks that crept the last tenth of a millimetre
        after = self.scene.but(pose=self.pose, velocity=self.velocity, contact=self.contact, glue=self.glue, glue_frame=self.glue_frame)
        return Settled(after, self.hit, steps, None if frames is None else np.stack(frames))

    def _anything_moves(self) -> bool:
        """Whether any body is faster than `REST_SPEED` or `_REST_SPIN`. First checks the body that it last found moving, so few checks are
        needed."""
        for rigid in self.bodies:
            if rigid.speed() > REST_SPEED or abs(rigid.body.angular_velocity) > _REST_SPIN:  # `rigid.moves()`, without a call
                if rigid is not self.bodies[0]:
                    self.bodies.remove(rigid)
                    self.bodies.insert(0, rigid)
                return True
        return False

    def _touch(self, i: int, j: int) -> bool:
        """Whether two rows touch now. Always False if neither of them moves: their touch was found while one of them still moved, and `run`
        checks all pairs once more at its end."""
        one, two = self.moving.get(i), self.moving.get(j)
        if (one is None or not one.moves()) and (two is None or not two.moves()):
            return False
        return gap(*self._box(i), *self._box(j)) <= TOUCH

    def _bond(self, met: list[tuple[int, int]]) -> None:
        """Bonds the rows that met in the last physics step, or records that an obstacle was hit.

        Within one step a fast block can turn by one or two degrees after its hit. A bond would have prevented this. So the two rows that
        met first are moved back to the poses of their first touch. Other pairs that do not bond now remain candidates.
        """
        self._look()
        if self.before:
            when, pair = min((first_touch(TIME_STEP, *self._course(i), *self._course(j)), (i, j)) for i, j in met)
            for row in pair if when < TIME_STEP else ():
                rigid = self.moving.get(row)
                if rigid is not None and rigid in self.before:
                    x, y, angle, vx, vy, spin = _motion(*self.before[rigid])
                    self._put(rigid, (x + vx * when, y + vy * when, angle + spin * when, vx, vy, spin))
        self._meet()
        self._build()

    def _course(self, row: int) -> tuple[float, ...]:
        """The eleven numbers of a row for `first_touch`: the motion of its body before the last physics step, its pose in the frame of the
        body, and its size. A body that was not fast counts as standing at its current pose."""
        rigid = self.moving.get(row)
        if rigid is None:
            return *self.pose[row].tolist(), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, *self.size[row]
        motion = _motion(*self.before[rigid]) if rigid in self.before else (*rigid.pose(), 0.0, 0.0, 0.0)
        local = (0.0, 0.0, 0.0) if rigid.local is None else rigid.local[rigid.rows.index(row)].tolist()
        return *motion, *local, *self.size[row]

    def _meet(self) -> None:
        """Finds the pairs that touch. Records whether an obstacle was hit, and makes new bonds."""
        scene = self.scene
        self.contact, new, hit = meet(self.pose, scene.size, scene.role, scene.sticky, self.glue)
        self.hit = self.hit or hit
        if new:
            self.glue, self.glue_frame = bond(
                self.pose, scene.size, scene.role, scene.sticky, self.contact, self.glue, self.glue_frame, new
            )  # fmt: skip
            for array in (self.glue, self.glue_frame):
                array.setflags(write=False)  # as in a scene, because these functions are compiled for its arrays

    def _build(self, solid: Sequence[int] = ()) -> None:
        """Makes the bodies that the bonds require, and destroys those whose rows changed. `solid` has further rows that become part of the
        static body."""
        label = glued_groups(self.glue, len(self.role)).tolist() if len(self.glue) else range(len(self.role))
        wanted: dict[int, list[int]] = {}
        for row in self.loose:
            wanted.setdefault(label[row], []).append(row)
        fixed = wanted.pop(label[FLOOR], [])
        if fixed:
            self.loose = [row for row in self.loose if label[row] != label[FLOOR]]
            self.fixed += fixed
        kept = []
        for rigid in self.bodies:
            if wanted.get(label[rigid.rows[0]]) == rigid.rows:
                del wanted[label[rigid.rows[0]]]
                kept.append(rigid)
            elif self.loose:
                rigid.body.destroy()
        self.bodies = kept
        for row in fixed:
            self.moving.pop(row, None)
        if self.loose:  # else nothing is left to simulate
            self._fix([*solid, *fixed])
        for rows in wanted.values():
            self._free(rows)

    def _fix(self, rows: list[int]) -> None:
        """Adds rows to the static body, at their current poses."""
        shape, pose, size, sticky, role = self.shape, self.pose, self.size, self.sticky, self.role
        for row in rows:
            shape.user_data = row
            shape.enable_contact_events = sticky[row] or role[row] == _OBSTACLE  # others cannot bond or be hit
            self.static.create_polygon_shape(shape, _box_at(*pose[row].tolist(), *size[row]))

    def _free(self, rows: list[int]) -> None:
        """Makes one moving body of `rows`, at their current poses and with their total momentum."""
        (x, y, angle), (vx, vy, spin), local = self.pose[rows[0]].tolist(), self.velocity[rows[0]].tolist(), None
        if len(rows) > 1:
            (x, y, vx, vy, spin), local = join(self.pose, self.velocity, self.scene.size, np.array(rows))
        definition, shape = self.definition, self.shape
        definition.position, definition.rotation = (x, y), _rotation(angle)
        definition.linear_velocity, definition.angular_velocity = (vx, vy), spin
        body = self.world.create_body_from_def(definition)
        for k, row in enumerate(rows):
            shape.user_data = row
            shape.enable_contact_events = self.sticky[row]
            box = _box_around(*self.size[row]) if local is None else _box_at(*local[k].tolist(), *self.size[row])
            body.create_polygon_shape(shape, box)
        body.apply_mass_from_shapes()
        rigid = _Rigid(body, rows, local, body.linear_velocity_magnitude)
        self.bodies.append(rigid)
        for row in rows:
            self.moving[row] = rigid

    def _look(self, resting: bool = False) -> None:
        """Copies the poses and velocities of moving rows from the engine. With `resting`, only the poses are needed."""
        for rigid in self.bodies:
            if resting and rigid.local is None:
                self.pose[rigid.rows[0]] = rigid.pose()
            else:
                self._put(rigid, _motion(*rigid.now()))

    def _put(self, rigid: _Rigid, motion: Motion) -> None:
        """Sets the poses and velocities of the rows of a body that has this `motion`."""
        if rigid.local is None:
            row = rigid.rows[0]
            self.pose[row], self.velocity[row] = motion[:3], motion[3:]
        else:
            spread(self.pose, self.velocity, np.array(rigid.rows), rigid.local, *motion)

    def _box(self, row: int) -> Box:
        """The current x, y, angle, width and height of a row."""
        w, h = self.size[row]
        rigid = self.moving.get(row)
        if rigid is None:
            return *self.pose[row].tolist(), w, h
        x, y, angle = rigid.pose()
        if rigid.local is not None:
            lx, ly, turned = rigid.local[rigid.rows.index(row)].tolist()
            c, s = cos(angle), sin(angle)
            x, y, angle = x + c * lx - s * ly, y + s * lx + c * ly, angle + turned
        return x, y, angle, w, h


@lru_cache
def _box_around(w: float, h: float) -> pyb2d3.Polygon:
    return pyb2d3.box(w / 2, h / 2)


@lru_cache(maxsize=1024)
def _box_at(x: float, y: float, angle: float, w: float, h: float) -> pyb2d3.Polygon:
    """The shape of a box at a pose in the frame of its body. Cached, because the same fixed objects occur in every placement of an
    episode."""
    return pyb2d3.box(w / 2, h / 2, (x, y), _rotation(angle))


@lru_cache
def _shape() -> pyb2d3.ShapeDef:
    """The definition that all shapes share. Copy it, because `user_data` and `enable_contact_events` differ between shapes."""
    return pyb2d3.shape_def(
        density=DENSITY,
        material=pyb2d3.surface_material(friction=FRICTION, restitution=0.0),
        update_body_mass=False,  # update once, after all shapes
        invoke_contact_creation=False,  # moving bodies find their contacts themselves
    )


@lru_cache
def _ground() -> pyb2d3.Polygon:
    return pyb2d3.box(500.0, 0.5, (0.0, GROUND_Y - 0.5))


def _rotation(angle: float) -> pyb2d3.Rot:
    """Converts an angle to a rotation of the engine. The angles 0.0 and -0.0 give the same rotation."""
    # Not the engine's own sine and cosine, which are off by up to 0.0015: a leaning block would creep up a little each time.
    rotation = pyb2d3.Rot()
    rotation.c, rotation.s = cos(angle), sin(angle) + 0.0
    return rotation


@atexit.register
def _forget() -> None:
    """Releases cached engine objects. Otherwise the engine reports leaks on standard error when the process ends."""
    for kept in (_box_around, _box_at, _shape, _ground):
        kept.cache_clear()
