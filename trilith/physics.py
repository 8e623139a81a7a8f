"""Box2D behind one pure function: `settle(scene)` lets everything fall and come to rest. Nothing else imports the engine.

A fresh world is built from the scene's arrays each time, so nothing hides in an engine object: the same bytes in give the
same bytes out in any process, and a state of an episode can be copied, stored and searched from like any other value.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import atan2, cos, sin
from typing import NamedTuple

import numpy as np
import pyb2d3

from trilith.geometry import TOUCH, Floats, gap, touching
from trilith.scene import Role, Scene

GRAVITY = -9.8
FRICTION = 0.4
DENSITY = 1.0
ANGULAR_DAMPING = 0.05
TIME_STEP = 0.02
SUB_STEPS = 4
MAX_STEPS = 1000
"""20 s: long enough for anything that comes to rest to do so. Most placements need 30 to 60 steps."""

GROUND_Y = -10.0
"""What falls off an end of the floor comes to rest here, far below the picture, where it is out of the game.

The floor is 28 m long and blocks are placed up to 7.5 m from its middle, so it takes a collapsing tower. Without a ground
such a block would fall on for all 20 s of this and every later placement.
"""
_GROUND = 1_000_000
"""Stands for the ground where a body has the row of its object."""

Box = tuple[float, float, float, float, float]
"""x, y, angle, width, height."""

# As plain numbers: naming a member of an enumeration takes as long as a call of the engine.
_BLOCK, _OBSTACLE, _UNREAL = int(Role.BLOCK), int(Role.OBSTACLE), (int(Role.AVAILABLE), int(Role.TARGET))
_STATIC, _DYNAMIC = pyb2d3.BodyType.STATIC, pyb2d3.BodyType.DYNAMIC


class Settled(NamedTuple):
    """What settling led to."""

    scene: Scene
    """At rest; at the moment of contact if an obstacle was hit; as it is after 20 s otherwise."""
    hit: bool
    """Whether a block touched an obstacle."""
    steps: int
    """Physics steps run."""
    frames: Floats | None
    """(steps + 1, N, 3): poses before the first step and after each one, if they were asked for."""


def settle(scene: Scene, record: bool = False, early_stop: bool = True) -> Settled:
    """Simulates until every block sleeps, one touches an obstacle, or 20 s have passed.

    The engine announces a contact up to 0.02 m before the shapes meet, so its events only name candidates, and the gap
    between the two rectangles decides (`geometry.TOUCH`) whether they bond or whether an obstacle was hit. Once all
    bodies sleep nothing can change any more; `early_stop=False` runs on regardless, which tests use to show just that.
    """
    world = pyb2d3.World(gravity=(0.0, GRAVITY))
    try:
        return _run(world, scene, record, early_stop)
    finally:
        world.destroy()  # the engine has room for 128 worlds, so do not wait for the garbage collector


def _run(world: pyb2d3.World, scene: Scene, record: bool, early_stop: bool) -> Settled:
    bodies = _create_bodies(world, scene)
    glue: list[list[int]] = scene.glue.tolist()
    glue_frames: list[Sequence[float]] = scene.glue_frame.tolist()
    for (i, j), frame in zip(glue, glue_frames, strict=True):
        _weld(world, bodies[i], bodies[j], frame)
    is_block = scene.role == _BLOCK
    moving = [(row, bodies[row]) for row in is_block.nonzero()[0].tolist()]
    obstacles = set((scene.role == _OBSTACLE).nonzero()[0].tolist())
    sizes = scene.size.tolist()
    frames = [scene.pose] if record else None

    watching = bool(obstacles) or bool(scene.sticky.any())
    pending: dict[tuple[int, int], None] = {}  # candidate pairs, in the order the engine named them
    advance, contacts, moves = world.step, world.get_contact_events, world.get_body_events
    hit = asleep = False
    steps = 0
    while not (hit or asleep or steps == MAX_STEPS):
        advance(TIME_STEP, SUB_STEPS)
        steps += 1
        if frames is not None:
            frames.append(_poses(scene, moving))
        if watching and (events := contacts()).begin_count:
            for event in events.begin_events():
                i, j = sorted((event.shape_a.body.user_data, event.shape_b.body.user_data))
                if j != _GROUND:
                    pending[i, j] = None
        for pair in list(pending) if pending else ():
            # The first events tell of what was close before the first step: gravity may have parted it since.
            met = _meeting([_at_start(scene, row) for row in pair]) if steps == 1 else None
            met = met or _meeting([_box(bodies[row], sizes[row]) for row in pair])
            if met is None:
                continue
            if not obstacles.isdisjoint(pair):
                hit = True
                break
            del pending[pair]
            i, j = pair
            frame = _bond_frame(*met)
            _weld(world, bodies[i], bodies[j], frame)
            glue.append([i, j])
            glue_frames.append(frame)
        # A step of a sleeping world costs little and changes nothing, so it is enough to ask now and then.
        asleep = early_stop and steps % 4 == 0 and moves().move_count == 0

    pose = _poses(scene, moving)
    velocity = np.zeros(scene.velocity.shape)
    if not asleep:
        for row, body in moving:
            v = body.linear_velocity
            velocity[row] = (v.x, v.y, body.angular_velocity)
    after = Scene.trusted(
        pose,
        scene.size,
        velocity,
        scene.role,
        scene.sticky,
        touching(pose, scene.size, scene.solid, is_block),
        np.array(glue, dtype=np.int64).reshape(-1, 2),
        np.array(glue_frames, dtype=np.float64).reshape(-1, 5),
    )
    return Settled(after, hit, steps, None if frames is None else np.stack(frames))


def _create_bodies(world: pyb2d3.World, scene: Scene) -> dict[int, pyb2d3.Body]:
    """A body for each solid row, in row order, which makes the engine's results a function of the scene alone."""
    material = pyb2d3.SurfaceMaterial()
    material.friction = FRICTION
    material.restitution = 0.0
    shape = pyb2d3.ShapeDef()
    shape.density = DENSITY
    shape.material = material
    fixed, block = pyb2d3.BodyDef(), pyb2d3.BodyDef()
    fixed.type, block.type = _STATIC, _DYNAMIC
    block.angular_damping = ANGULAR_DAMPING
    rotation = pyb2d3.Rot()
    bodies = {}
    fixed.position, fixed.user_data = (0.0, GROUND_Y - 0.5), _GROUND
    world.create_body_from_def(fixed).create_polygon_shape(shape, pyb2d3.box(500.0, 0.5))
    columns = zip(
        scene.role.tolist(), scene.sticky.tolist(), scene.pose.tolist(), scene.size.tolist(), scene.velocity.tolist(), strict=True
    )
    for row, (role, sticky, (x, y, angle), (w, h), (vx, vy, spin)) in enumerate(columns):
        if role in _UNREAL:
            continue
        definition = fixed
        if role == _BLOCK:
            definition = block
            block.linear_velocity = (vx, vy)
            block.angular_velocity = spin
        definition.position = (x, y)
        # Not the engine's own sine and cosine: those are off by up to 0.0015, and a leaning block would creep up a little each time.
        rotation.c, rotation.s = cos(angle), sin(angle)
        definition.rotation = rotation
        definition.user_data = row
        body = world.create_body_from_def(definition)
        # Only what can bond or end the episode needs to announce its contacts.
        shape.enable_contact_events = sticky or role == _OBSTACLE
        body.create_polygon_shape(shape, pyb2d3.box(w / 2, h / 2))
        bodies[row] = body
    return bodies


def _poses(scene: Scene, moving: list[tuple[int, pyb2d3.Body]]) -> Floats:
    """(N, 3): the scene's poses with those of the moving rows as they are in the world now."""
    pose = scene.pose.copy()
    for row, body in moving:
        position, rotation = body.position, body.rotation
        # The engine's own arctangent is an approximation.
        pose[row] = (position.x, position.y, atan2(rotation.s, rotation.c))
    return pose


def _box(body: pyb2d3.Body, size: Sequence[float]) -> Box:
    """A body where it is now."""
    position, rotation = body.position, body.rotation
    return position.x, position.y, atan2(rotation.s, rotation.c), size[0], size[1]


def _at_start(scene: Scene, row: int) -> Box:
    """A row of the scene that is being settled."""
    (x, y, angle), (w, h) = scene.pose[row].tolist(), scene.size[row].tolist()
    return x, y, angle, w, h


def _meeting(boxes: list[Box]) -> list[Box] | None:
    """Two boxes if they touch."""
    return boxes if gap(*boxes[0], *boxes[1]) <= TOUCH else None


def _bond_frame(a: Box, b: Box) -> tuple[float, float, float, float, float]:
    """A weld at the middle of where two touching boxes meet: that point in either frame, and their relative angle.

    The middle of the overlap of the upright boxes around both is exact for upright blocks and close for tilted ones; a
    rigid weld holds the same wherever its point is.
    """
    sides = []
    for x, y, angle, w, h in (a, b):
        c, s = abs(cos(angle)), abs(sin(angle))
        ex, ey = (w * c + h * s) / 2, (w * s + h * c) / 2
        sides.append((x - ex, x + ex, y - ey, y + ey))
    (al, ar, ab, at), (bl, br, bb, bt) = sides
    x, y = (max(al, bl) + min(ar, br)) / 2, (max(ab, bb) + min(at, bt)) / 2
    local = []
    for px, py, angle, _, _ in (a, b):
        c, s = cos(angle), sin(angle)
        local += [(x - px) * c + (y - py) * s, (y - py) * c - (x - px) * s]
    return local[0], local[1], local[2], local[3], b[2] - a[2]


def _weld(world: pyb2d3.World, a: pyb2d3.Body, b: pyb2d3.Body, frame: Sequence[float]) -> None:
    """Joins two bodies as stiffly as the engine can (its default for a weld)."""
    joint = pyb2d3.WeldJointDef()
    joint.body_a, joint.body_b = a, b
    joint.local_anchor_a, joint.local_anchor_b = (frame[0], frame[1]), (frame[2], frame[3])
    joint.reference_angle = frame[4]
    world.create_weld_joint(joint)
