"""Geometry of rectangles: bounding box, overlap, gap, contact, point inside. A rectangle has a pose (x, y, angle) and a size
(width, height)."""

from __future__ import annotations

from math import cos, hypot, sin

import numpy as np
from numpy.typing import NDArray

from trilith.utils.compiled import compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

TOUCH = 0.005
"""Two rectangles touch when the gap between them is at most this (metres)."""


def extents(pose: Floats, size: Floats) -> Floats:
    """(M, 2): half width and half height of the axis-aligned bounding box of each rectangle."""
    half = size.T * 0.5
    return (half * np.abs(np.cos(pose[:, 2])) + half[::-1] * np.abs(np.sin(pose[:, 2]))).T


def boxes(pose: Floats, size: Floats) -> Floats:
    """(4, M): left, right, bottom and top of the axis-aligned bounding box of each rectangle."""
    (x, y, _), (across, up) = pose.T, extents(pose, size).T
    return np.stack([x - across, x + across, y - up, y + up])


@compiled
def extent(w: float, h: float, angle: float) -> tuple[float, float]:
    """Half width and half height of the axis-aligned bounding box of one rectangle, for compiled loops."""
    c, s = abs(cos(angle)), abs(sin(angle))
    return (w * c + h * s) / 2, (w * s + h * c) / 2


@compiled
def overlaps(x: float, y: float, w: float, h: float, px: float, py: float, c: float, s: float, pw: float, ph: float) -> bool:
    """Whether an upright rectangle (centre x, y, size w, h) shares area with another (px, py, cos and sin of its angle, pw, ph).

    The test is exact (separating axis theorem): two rectangles overlap unless an axis of one of them separates them.
    """
    dx, dy, ac, as_ = x - px, y - py, abs(c), abs(s)
    return bool(
        (abs(dy) < (h + ph * ac + pw * as_) / 2)
        & (abs(dx) < (w + pw * ac + ph * as_) / 2)
        & (abs(dx * c + dy * s) < (pw + w * ac + h * as_) / 2)
        & (abs(dy * c - dx * s) < (ph + w * as_ + h * ac) / 2)
    )


@compiled
def may_overlap(
    left: float, right: float, y: float, w: float, h: float, px: float, py: float, c: float, s: float, pw: float, ph: float
) -> bool:
    """A fast test before `overlaps`, for an upright rectangle whose centre has any x from `left` to `right`. If the result is False,
    `overlaps` is False for all these x. Compares only bounding boxes."""
    ac, as_ = abs(c), abs(s)
    across = (w + pw * ac + ph * as_) / 2
    return abs(y - py) < (h + ph * ac + pw * as_) / 2 and left - px < across and px - right < across


@compiled
def overlaps_any(x: float, y: float, w: float, h: float, pose: Floats, size: Floats, which: Bools) -> bool:
    """Whether an upright rectangle shares area with any rectangle of `pose` (N, 3) and `size` (N, 2) in the mask `which` (N,)."""
    for k in range(len(which)):
        if which[k] and overlaps(x, y, w, h, pose[k, 0], pose[k, 1], cos(pose[k, 2]), sin(pose[k, 2]), size[k, 0], size[k, 1]):
            return True
    return False


@compiled
def gap(ax: float, ay: float, at: float, aw: float, ah: float, bx: float, by: float, bt: float, bw: float, bh: float) -> float:
    """Distance between two rectangles (x, y, angle, width, height); 0 if they overlap.

    If they do not overlap, one of the two closest points is always a corner. So the distances of the eight corners are enough.
    """
    aw, ah, bw, bh = aw / 2, ah / 2, bw / 2, bh / 2
    dx, dy = bx - ax, by - ay
    ca, sa, cb, sb = cos(at), sin(at), cos(bt), sin(bt)
    px, py = ca * dx + sa * dy, ca * dy - sa * dx  # b's centre seen from a
    qx, qy = -(cb * dx + sb * dy), sb * dx - cb * dy  # a's centre seen from b
    c, s = ca * cb + sa * sb, ca * sb - sa * cb  # b's angle seen from a
    ac, as_ = abs(c), abs(s)
    if (
        abs(px) <= aw + bw * ac + bh * as_
        and abs(py) <= ah + bw * as_ + bh * ac
        and abs(qx) <= bw + aw * ac + ah * as_
        and abs(qy) <= bh + aw * as_ + ah * ac
    ):
        return 0.0
    best = np.inf
    for i in (-1.0, 1.0):
        for j in (-1.0, 1.0):
            x, y = px + i * bw * c - j * bh * s, py + i * bw * s + j * bh * c  # a corner of b seen from a
            best = min(best, hypot(max(abs(x) - aw, 0.0), max(abs(y) - ah, 0.0)))
            x, y = qx + i * aw * c + j * ah * s, qy - i * aw * s + j * ah * c  # a corner of a seen from b
            best = min(best, hypot(max(abs(x) - bw, 0.0), max(abs(y) - bh, 0.0)))
    return best


@compiled
def touching(pose: Floats, size: Floats, solid: Bools, wanted: Bools, apart: float = TOUCH) -> Ints:
    """(C, 2): sorted pairs (i, j), i < j, of rows that are at most `apart` metres apart. Both are in the mask `solid` (N,), and at least
    one is in the mask `wanted` (N,)."""
    rows, across, up = np.empty(len(solid), dtype=np.int64), np.empty(len(solid)), np.empty(len(solid))
    solids = count = 0
    for row in range(len(solid)):
        if solid[row]:
            across[row], up[row] = extent(size[row, 0], size[row, 1], pose[row, 2])
            rows[solids] = row
            solids += 1
    rows = rows[:solids]
    pairs = np.empty((solids * (solids - 1) // 2, 2), dtype=np.int64)
    near = apart + 1e-6  # `gap` is computed only if the bounding boxes are at most this far apart
    for k, i in enumerate(rows):
        for j in rows[k + 1 :]:
            ax, ay, at, bx, by, bt = pose[i, 0], pose[i, 1], pose[i, 2], pose[j, 0], pose[j, 1], pose[j, 2]
            close = abs(ax - bx) <= across[i] + across[j] + near and abs(ay - by) <= up[i] + up[j] + near
            if close and (wanted[i] or wanted[j]) and gap(ax, ay, at, size[i, 0], size[i, 1], bx, by, bt, size[j, 0], size[j, 1]) <= apart:
                pairs[count, 0], pairs[count, 1] = i, j
                count += 1
    return pairs[:count].copy()


@compiled
def contains(w: float, h: float, c: float, s: float, dx: float, dy: float) -> bool:
    """Whether a rectangle (width, height, cos and sin of its angle) contains the point at (dx, dy) from its centre. The boundary
    counts as inside."""
    return abs(dx * c + dy * s) <= w / 2 and abs(dy * c - dx * s) <= h / 2
