"""Rectangles: extents, overlap, gap, point inside. A rectangle is a pose (x, y, angle) and a size (width, height)."""

from __future__ import annotations

from math import cos, hypot, sin
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

TOUCH = 0.005
"""Two rectangles touch when the gap between them is at most this (metres)."""


class Rects(NamedTuple):
    """M rectangles, with what is asked of them again and again."""

    pose: Floats
    """(M, 3): x, y of the centre and angle."""
    size: Floats
    """(M, 2): width and height."""
    cos: Floats
    """(M,): cosine of the angle."""
    sin: Floats
    """(M,): sine of the angle."""
    around: Floats
    """(M, 2): half width and half height of the upright box around each."""

    @staticmethod
    def of(pose: Floats, size: Floats) -> Rects:
        """The rectangles of these poses and sizes."""
        c, s = np.cos(pose[:, 2]), np.sin(pose[:, 2])
        half = size.T * 0.5
        return Rects(pose, size, c, s, (half * np.abs(c) + half[::-1] * np.abs(s)).T)


def extents(pose: Floats, size: Floats) -> Floats:
    """(M, 2): half width and half height of the upright box around each rectangle."""
    return Rects.of(pose, size).around


def overlaps_any(x: Floats, y: Floats, w: Floats, h: float, others: Rects) -> Bools:
    """(K, n): whether upright rectangles share area with any of M others.

    There are K rows of n upright rectangles of height `h`; those of a row share their `y` (K,) and width `w` (K,) and differ
    in `x` (K, n). Exact, by separating axes: two rectangles are apart just when they are apart along an axis of one of them.
    This is the one test of a spawn collision, and the mask of legal actions asks it about thousands at once: so first what
    is apart in y is left out, then what is apart in x, and tilted pairs that remain are looked at along the other two axes.
    """
    result = np.zeros(x.shape, dtype=bool)
    row, other = (np.abs(y[:, None] - others.pose[:, 1]) < others.around[:, 1] + h / 2).nonzero()
    if not len(row):
        return result
    dx = x[row] - others.pose[other, 0][:, None]
    hit = np.abs(dx) < (w[row] * 0.5 + others.around[other, 0])[:, None]
    pair, column = (hit & (others.sin[other] != 0)[:, None]).nonzero()
    if len(pair):
        m = other[pair]
        r = row[pair]
        c, s, size = others.cos[m], others.sin[m], others.size[m]
        along, up = dx[pair, column], y[r] - others.pose[m, 1]
        hw, hh, ac, as_ = w[r] * 0.5, h / 2, np.abs(c), np.abs(s)
        meet = np.abs(along * c + up * s) < size[:, 0] * 0.5 + hw * ac + hh * as_
        meet &= np.abs(up * c - along * s) < size[:, 1] * 0.5 + hw * as_ + hh * ac
        hit[pair, column] = meet
    starts = np.concatenate([[0], (row[1:] != row[:-1]).nonzero()[0] + 1])  # rows come sorted, so each is one run
    result[row[starts]] = np.logical_or.reduceat(hit, starts, axis=0)
    return result


def gap(
    ax: float, ay: float, at: float, aw: float, ah: float, bx: float, by: float, bt: float, bw: float, bh: float
) -> float:  # fmt: skip
    """Distance between two rectangles, 0 where they overlap. Plain floats: physics asks for a few pairs at every step.

    Outside an overlap the closest points always include a corner of one of the two, so eight corners decide.
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
    best = float("inf")
    ux, uy, vx, vy = bw * c, bw * s, -bh * s, bh * c
    for x, y in ((px + ux + vx, py + uy + vy), (px + ux - vx, py + uy - vy), (px - ux + vx, py - uy + vy), (px - ux - vx, py - uy - vy)):
        best = min(best, hypot(max(abs(x) - aw, 0.0), max(abs(y) - ah, 0.0)))
    ux, uy, vx, vy = aw * c, -aw * s, ah * s, ah * c
    for x, y in ((qx + ux + vx, qy + uy + vy), (qx + ux - vx, qy + uy - vy), (qx - ux + vx, qy - uy + vy), (qx - ux - vx, qy - uy - vy)):
        best = min(best, hypot(max(abs(x) - bw, 0.0), max(abs(y) - bh, 0.0)))
    return best


def touching(rects: Rects, wanted: Bools) -> list[tuple[int, int]]:
    """Pairs (i, j), i < j, sorted, of touching rectangles of which at least one is `wanted` (M,)."""
    (x, y, _), (ex, ey) = rects.pose.T, rects.around.T
    first = wanted.nonzero()[0]
    near = np.abs(x[first, None] - x) <= ex[first, None] + (ex + TOUCH)
    near &= np.abs(y[first, None] - y) <= ey[first, None] + (ey + TOUCH)
    rows, seconds = near.nonzero()
    boxes = np.concatenate([rects.pose, rects.size], axis=1).tolist()
    pairs = {(i, j) if i < j else (j, i) for i, j in zip(first[rows].tolist(), seconds.tolist(), strict=True) if i != j}
    return sorted((i, j) for i, j in pairs if gap(*boxes[i], *boxes[j]) <= TOUCH)


def contains(rects: Rects, points: Floats) -> Bools:
    """(P, M): whether each of P points (P, 2) lies inside each of M rectangles, edges included."""
    dx, dy = points[:, 0, None] - rects.pose[:, 0], points[:, 1, None] - rects.pose[:, 1]
    along, across = dx * rects.cos + dy * rects.sin, dy * rects.cos - dx * rects.sin
    return (np.abs(along) <= rects.size[:, 0] / 2) & (np.abs(across) <= rects.size[:, 1] / 2)
