"""Rectangles: extents, overlap, gap, point inside. A rectangle is a pose (x, y, angle) and a size (width, height)."""

from __future__ import annotations

from math import cos, hypot, sin

import numpy as np

from trilith.scene import Bools, Floats

TOUCH = 0.005
"""Two rectangles touch when the gap between them is at most this (metres)."""


def extents(pose: Floats, size: Floats) -> Floats:
    """(..., 2): half width and half height of the upright box around each rectangle."""
    c, s = np.abs(np.cos(pose[..., 2])), np.abs(np.sin(pose[..., 2]))
    w, h = size[..., 0] / 2, size[..., 1] / 2
    return np.stack([w * c + h * s, w * s + h * c], axis=-1)


def overlaps_any(x: Floats, y: Floats, w: Floats, h: Floats, pose: Floats, size: Floats) -> Bools:
    """(K, n): whether upright rectangles share area with any of M others (pose (M, 3), size (M, 2)).

    There are K rows of n upright rectangles; those of a row share their height in the world `y` (K,) and their size `w`, `h`
    (K,), and differ in `x` (K, n). Exact, by separating axes: two rectangles are apart just when they are apart along an axis
    of one of them. This is the one test of a spawn collision, and the mask of legal actions asks it about thousands at once:
    so first what is apart in y is left out, then what is apart in x, and tilted pairs that remain are looked at along the
    other two axes.
    """
    around = extents(pose, size)
    row, other = np.nonzero(np.abs(y[:, None] - pose[:, 1]) < h[:, None] / 2 + around[:, 1])
    result = np.zeros(x.shape, dtype=bool)
    if not len(row):
        return result
    dx = x[row] - pose[other, 0, None]
    hit = np.abs(dx) < (w[row] / 2 + around[other, 0])[:, None]
    pair, column = np.nonzero(hit & (pose[other, 2] != 0)[:, None])
    if len(pair):
        r, m, along = row[pair], other[pair], dx[pair, column]
        up, c, s = y[r] - pose[m, 1], np.cos(pose[m, 2]), np.sin(pose[m, 2])
        hw, hh, ac, as_ = w[r] / 2, h[r] / 2, np.abs(c), np.abs(s)
        meet = np.abs(along * c + up * s) < size[m, 0] / 2 + hw * ac + hh * as_
        meet &= np.abs(up * c - along * s) < size[m, 1] / 2 + hw * as_ + hh * ac
        hit[pair, column] = meet
    starts = np.flatnonzero(np.diff(row, prepend=-1))  # rows come sorted, so each is one run
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


def touching(pose: Floats, size: Floats, first: Bools, second: Bools) -> list[tuple[int, int]]:
    """Pairs (i, j), i < j, sorted, of touching rectangles, one of them in `first` and one in `second` (masks over rows)."""
    around = extents(pose, size)
    near = (np.abs(pose[:, None, :2] - pose[None, :, :2]) <= around[:, None] + around[None] + TOUCH).all(axis=-1)
    wanted = first[:, None] & second
    rows, columns = np.nonzero(np.triu(near & (wanted | wanted.T), 1))
    boxes = np.concatenate([pose, size], axis=1).tolist()
    return [(i, j) for i, j in zip(rows.tolist(), columns.tolist(), strict=True) if gap(*boxes[i], *boxes[j]) <= TOUCH]


def contains(pose: Floats, size: Floats, points: Floats) -> Bools:
    """(P, M): whether each of P points (P, 2) lies inside each of M rectangles, edges included."""
    d = points[:, None] - pose[None, :, :2]
    c, s = np.cos(pose[:, 2]), np.sin(pose[:, 2])
    along, across = d[..., 0] * c + d[..., 1] * s, d[..., 1] * c - d[..., 0] * s
    return (np.abs(along) <= size[:, 0] / 2) & (np.abs(across) <= size[:, 1] / 2)
