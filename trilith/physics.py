"""Box2D behind one pure function: `settle(scene)` lets everything fall and come to rest. Nothing else imports the engine.

A fresh world is built from the scene's arrays each time, so nothing hides in an engine object: the same bytes in give the
same bytes out in any process, and a state of an episode can be copied, stored and searched from like any other value.
"""

from __future__ import annotations

from math import cos, sin
from typing import NamedTuple

import numpy as np
import pyb2d3

from trilith.geometry import TOUCH, gap, touching
from trilith.scene import Floats, Role, Scene

GRAVITY = -9.8
FRICTION = 0.4
DENSITY = 1.0
ANGULAR_DAMPING = 0.05
TIME_STEP = 0.02
SUB_STEPS = 4
MAX_STEPS = 1000
"""20 s: long enough for anything that comes to rest to do so. Most placements need 30 to 60 steps."""

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
    is_block, is_obstacle, is_floor = (scene.role == role for role in (Role.BLOCK, Role.OBSTACLE, Role.FLOOR))
    bodies = _create_bodies(world, scene)
    glue = [tuple(pair) for pair in scene.glue.tolist()]
    glue_frames = [tuple(frame) for frame in scene.glue_frame.tolist()]
    for (i, j), frame in zip(glue, glue_frames, strict=True):
        _weld(world, bodies[i], bodies[j], frame)
    sizes = scene.size.tolist()
    obstacle = is_obstacle.tolist()
    frames = [scene.pose] if record else None
    moving = [(row, bodies[row]) for row in np.flatnonzero(is_block).tolist()]

    bonded = set(glue)
    pending: dict[tuple[int, int], None] = {}  # candidate pairs, in the order the engine named them
    hit = False
    steps = 0
    # What touches before the first step has no event yet (and gravity may part it before there is one).
    for i, j in touching(scene.pose, scene.size, is_obstacle | scene.sticky, is_block | is_floor):
        if (is_block[i] or is_block[j]) and (i, j) not in bonded:
            pending[i, j] = None
    while True:
        for i, j in list(pending):
            a, b = bodies[i], bodies[j]
            (ax, ay), (bx, by), (aw, ah), (bw, bh) = a.position, b.position, sizes[i], sizes[j]
            if gap(ax, ay, a.angle, aw, ah, bx, by, b.angle, bw, bh) > TOUCH:
                continue
            if obstacle[i] or obstacle[j]:
                hit = True
                break
            del pending[i, j]
            frame = _bond_frame(a, b, sizes[i], sizes[j])
            _weld(world, a, b, frame)
            bonded.add((i, j))
            glue.append((i, j))
            glue_frames.append(frame)
        if hit or steps == MAX_STEPS:
            break
        world.step(TIME_STEP, SUB_STEPS)
        steps += 1
        if frames is not None:
            frames.append(_poses(scene, moving))
        events = world.get_contact_events()
        if events.begin_count:
            for event in events.begin_events():
                i, j = sorted((event.shape_a.body.user_data, event.shape_b.body.user_data))
                if (i, j) not in bonded:
                    pending[i, j] = None
        if early_stop and world.get_body_events().move_count == 0:
            break

    pose = _poses(scene, moving)
    velocity = scene.velocity.copy()
    for row, body in moving:
        velocity[row] = (*body.linear_velocity, body.angular_velocity)
    finite = bool(np.isfinite(pose).all() and np.isfinite(velocity).all())
    contact = touching(pose, scene.size, is_block, scene.solid) if finite else []
    after = Scene(
        pose=pose,
        size=scene.size,
        velocity=velocity,
        role=scene.role,
        sticky=scene.sticky,
        contact=np.asarray(contact, dtype=np.int64).reshape(-1, 2),
        glue=np.asarray(glue, dtype=np.int64).reshape(-1, 2),
        glue_frame=np.asarray(glue_frames, dtype=np.float64).reshape(-1, 5),
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
    bodies = {}
    columns = zip(
        scene.role.tolist(), scene.sticky.tolist(), scene.pose.tolist(), scene.size.tolist(), scene.velocity.tolist(), strict=True
    )
    for row, (role, sticky, (x, y, angle), (w, h), (vx, vy, spin)) in enumerate(columns):
        if role in (Role.AVAILABLE, Role.TARGET):
            continue
        definition = fixed
        if role == Role.BLOCK:
            definition = block
            block.linear_velocity = (vx, vy)
            block.angular_velocity = spin
        definition.position = (x, y)
        definition.rotation = pyb2d3.make_rot(angle)
        definition.user_data = row
        body = world.create_body_from_def(definition)
        # Only what can bond or end the episode needs to announce its contacts.
        shape.enable_contact_events = sticky or role == Role.OBSTACLE
        body.create_polygon_shape(shape, pyb2d3.box(w / 2, h / 2))
        bodies[row] = body
    return bodies


def _poses(scene: Scene, moving: list[tuple[int, pyb2d3.Body]]) -> Floats:
    """(N, 3): the scene's poses with those of the moving rows as they are in the world now."""
    pose = scene.pose.copy()
    for row, body in moving:
        pose[row] = (*body.position, body.angle)
    return pose


def _bond_frame(a: pyb2d3.Body, b: pyb2d3.Body, a_size: list[float], b_size: list[float]) -> tuple[float, float, float, float, float]:
    """A weld at the middle of where two touching bodies meet: that point in either frame, and their relative angle.

    The middle of the overlap of the upright boxes around both is exact for upright blocks and close for tilted ones; a rigid weld holds
    the same wherever its point is.
    """
    boxes = []
    for body, (w, h) in ((a, a_size), (b, b_size)):
        (x, y), c, s = body.position, abs(cos(body.angle)), abs(sin(body.angle))
        ex, ey = (w * c + h * s) / 2, (w * s + h * c) / 2
        boxes.append((x - ex, x + ex, y - ey, y + ey))
    (al, ar, ab, at), (bl, br, bb, bt) = boxes
    x, y = (max(al, bl) + min(ar, br)) / 2, (max(ab, bb) + min(at, bt)) / 2
    local = []
    for body in (a, b):
        (px, py), c, s = body.position, cos(body.angle), sin(body.angle)
        local += [(x - px) * c + (y - py) * s, (y - py) * c - (x - px) * s]
    return (local[0], local[1], local[2], local[3], b.angle - a.angle)


def _weld(world: pyb2d3.World, a: pyb2d3.Body, b: pyb2d3.Body, frame: tuple[float, ...]) -> None:
    """Joins two bodies as stiffly as the engine can (its default for a weld)."""
    joint = pyb2d3.WeldJointDef()
    joint.body_a, joint.body_b = a, b
    joint.local_anchor_a, joint.local_anchor_b = (frame[0], frame[1]), (frame[2], frame[3])
    joint.reference_angle = frame[4]
    world.create_weld_joint(joint)
