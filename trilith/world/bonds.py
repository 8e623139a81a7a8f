"""Contacts and bonds: which objects touch, which of them are bonded by glue, and how bonded objects move as one body. Compiled, for
`physics.py`."""

from __future__ import annotations

from math import cos, sin

import numpy as np

from trilith.utils.compiled import compiled
from trilith.world.geometry.rectangles import TOUCH, Bools, Floats, Ints, extent, gap, touching
from trilith.world.scene import Role

Box = tuple[float, float, float, float, float]
"""A rectangle: x, y, angle, width, height."""

MET = 0.0005
"""Metres: `first_touch` finds the time when the gap between two objects has shrunk to this."""
_BLOCK, _OBSTACLE, _FLOOR = int(Role.BLOCK), int(Role.OBSTACLE), int(Role.FLOOR)


@compiled
def meet(pose: Floats, size: Floats, role: Ints, sticky: Bools, glue: Ints) -> tuple[Ints, int, bool]:
    """Finds contacts. Returns three things: the pairs of rows that touch (C, 2), sorted; how many of these pairs must be bonded but are not
    yet in `glue` (G, 2); and whether a block touches an obstacle."""
    is_block = role == _BLOCK
    contact = touching(pose, size, is_block | (role == _OBSTACLE) | (role == _FLOOR), is_block)
    new, hit = 0, False
    for i, j in contact:
        if role[i] == _OBSTACLE or role[j] == _OBSTACLE:
            hit = True
        elif _joins(i, j, role, sticky, glue):
            new += 1
    return contact, new, hit


@compiled
def bond(pose: Floats, size: Floats, role: Ints, sticky: Bools, contact: Ints, glue: Ints, frame: Floats, new: int) -> tuple[Ints, Floats]:
    """Returns copies of `glue` (G, 2) and `frame` (G, 5), which are `glue` and `glue_frame` of a scene, with new bonds at the end.

    The new bonds are those pairs of `contact` (C, 2) that are not in `glue`, have a sticky object and have no obstacle, in the order of
    `contact`. `new` is their number. `pose`, `size`, `role` and `sticky` are the arrays of the scene.
    """
    pairs, frames = np.empty((len(glue) + new, 2), dtype=np.int64), np.empty((len(glue) + new, 5))
    count = len(glue)
    for g in range(count):
        pairs[g, 0], pairs[g, 1] = glue[g, 0], glue[g, 1]
        for k in range(5):
            frames[g, k] = frame[g, k]
    for i, j in contact:
        if _joins(i, j, role, sticky, glue):
            one = pose[i, 0], pose[i, 1], pose[i, 2], size[i, 0], size[i, 1]
            two = pose[j, 0], pose[j, 1], pose[j, 2], size[j, 0], size[j, 1]
            pairs[count, 0], pairs[count, 1] = i, j
            into = frames[count]
            into[0], into[1], into[2], into[3], into[4] = bond_frame(one, two)
            count += 1
    return pairs, frames


@compiled
def _joins(i: int, j: int, role: Ints, sticky: Bools, glue: Ints) -> bool:
    """Whether the touching objects in rows i and j become bonded: one of them is sticky, neither is an obstacle, and the pair (i, j) is not
    yet in `glue` (G, 2)."""
    if role[i] == _OBSTACLE or role[j] == _OBSTACLE or not (sticky[i] or sticky[j]):
        return False
    for a, b in glue:  # noqa: SIM110 (numba knows no `all` of a generator)
        if a == i and b == j:
            return False
    return True


@compiled
def bond_frame(a: Box, b: Box) -> tuple[float, float, float, float, float]:
    """The point of the bond between two touching boxes, for pictures: its x and y in the frame of `a`, its x and y in the frame of `b`, and
    the angle of `b` relative to `a`.

    The point is the middle of the overlap of the two axis-aligned bounding boxes. This is exact for upright boxes and close for tilted
    ones.
    """
    (ax, ay, at, aw, ah), (bx, by, bt, bw, bh) = a, b
    (aex, aey), (bex, bey) = extent(aw, ah, at), extent(bw, bh, bt)
    x = (max(ax - aex, bx - bex) + min(ax + aex, bx + bex)) / 2
    y = (max(ay - aey, by - bey) + min(ay + aey, by + bey)) / 2
    ca, sa, cb, sb = cos(at), sin(at), cos(bt), sin(bt)
    return (
        (x - ax) * ca + (y - ay) * sa,
        (y - ay) * ca - (x - ax) * sa,
        (x - bx) * cb + (y - by) * sb,
        (y - by) * cb - (x - bx) * sb,
        bt - at,
    )


@compiled
def join(pose: Floats, velocity: Floats, size: Floats, rows: Ints) -> tuple[Box, Floats]:
    """The motion of one rigid body made of the objects in `rows` (R,). Returns two things: x, y, v_x and v_y of the body's centre of mass
    and its angular velocity; and an array (R, 3), the pose of each object in the frame of the body.

    `pose`, `velocity` and `size` are the arrays of the scene. The mass of an object is its area. Momentum and angular momentum are those of
    the separate objects. The body has the angle of its first object.
    """
    mass = x = y = vx = vy = 0.0
    for row in rows:
        m = size[row, 0] * size[row, 1]
        mass, x, y = mass + m, x + m * pose[row, 0], y + m * pose[row, 1]
        vx, vy = vx + m * velocity[row, 0], vy + m * velocity[row, 1]
    x, y, vx, vy = x / mass, y / mass, vx / mass, vy / mass
    angle = pose[rows[0], 2]
    c, s = cos(angle), sin(angle)
    local = np.empty((len(rows), 3))
    inertia = momentum = 0.0
    for k, row in enumerate(rows):
        w, h, u, v, spin = size[row, 0], size[row, 1], velocity[row, 0], velocity[row, 1], velocity[row, 2]
        m, rx, ry = w * h, pose[row, 0] - x, pose[row, 1] - y
        own = m * (w * w + h * h) / 12
        inertia += own + m * (rx * rx + ry * ry)
        momentum += own * spin + m * (rx * (v - vy) - ry * (u - vx))
        local[k, 0], local[k, 1], local[k, 2] = c * rx + s * ry, c * ry - s * rx, pose[row, 2] - angle
    return (x, y, vx, vy, momentum / inertia), local


@compiled
def spread(
    pose: Floats, velocity: Floats, rows: Ints, local: Floats, x: float, y: float, angle: float, vx: float, vy: float, spin: float
) -> None:
    """Writes the motion of a rigid body to its objects: sets the rows `rows` (R,) of `pose` (N, 3) and `velocity` (N, 3), in place.

    `local` (R, 3) is the pose of each object in the frame of the body. x, y, angle, vx, vy and spin (the angular velocity) are those of the
    body.
    """
    c, s = cos(angle), sin(angle)
    for k, row in enumerate(rows):
        lx, ly, turned = local[k, 0], local[k, 1], local[k, 2]
        rx, ry = c * lx - s * ly, s * lx + c * ly
        pose[row, 0], pose[row, 1], pose[row, 2] = x + rx, y + ry, angle + turned
        velocity[row, 0], velocity[row, 1], velocity[row, 2] = vx - spin * ry, vy + spin * rx, spin


@compiled
def first_touch(
    step: float,
    ax: float, ay: float, at: float, avx: float, avy: float, aspin: float, alx: float, aly: float, aturned: float, aw: float, ah: float,
    bx: float, by: float, bt: float, bvx: float, bvy: float, bspin: float, blx: float, bly: float, bturned: float, bw: float, bh: float,
) -> float:  # fmt: skip
    """The time in seconds, to within `step` / 64, until the gap between two objects is at most `MET`, if their bodies keep their
    velocities. Returns `step` if the objects touch already, or if the gap is still larger after `step` seconds.

    The arguments after `step` describe object a, then object b, with 11 numbers each: x, y, angle, v_x, v_y and angular velocity of its
    body; x, y and angle of the object in the frame of the body; width and height. A body is one block, or several that glue holds together.
    """
    early, late = 0.0, step
    for k in range(8):
        t = 0.0 if k == 0 else step if k == 1 else (early + late) / 2
        a, b = at + aspin * t, bt + bspin * t
        apart = gap(
            ax + avx * t + cos(a) * alx - sin(a) * aly, ay + avy * t + sin(a) * alx + cos(a) * aly, a + aturned, aw, ah,
            bx + bvx * t + cos(b) * blx - sin(b) * bly, by + bvy * t + sin(b) * blx + cos(b) * bly, b + bturned, bw, bh,
        )  # fmt: skip
        if (k == 0 and apart <= TOUCH) or (k == 1 and apart > MET):
            return step
        if k > 1 and apart <= MET:
            late = t
        elif k > 1:
            early = t
    return late
