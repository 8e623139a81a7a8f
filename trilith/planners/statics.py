"""Will it stand? A quick answer from plain statics, without the simulator: weights handed down from block to block."""

from __future__ import annotations

import numpy as np

from trilith.planners.candidates import LEVEL, boxes
from trilith.world.scene import Role, Scene


def stands(scene: Scene, margin: float = 0.0) -> bool:
    """Whether every block of an upright scene would stay where it is, by at least `margin` metres.

    From the top down, each block (or group of blocks that glue holds together) hands its weight and what rests on it to
    what it lies on: to the one support under the resultant, or to the two on either side of it, as a lever would. It
    topples when the resultant lies beyond all its supports. A group that holds to the floor never does. What a glued
    contact could bear otherwise is not looked at, nor is friction.
    """
    blocks = scene.rows(Role.BLOCK)
    rows = np.concatenate([[int(np.flatnonzero(scene.role == Role.FLOOR)[0])], blocks])
    left, right, low, top = boxes(scene, rows)
    over, under = np.nonzero((np.abs(low[:, None] - top) < LEVEL) & (np.minimum(right[:, None], right) > np.maximum(left[:, None], left)))
    group = _groups(scene, rows, list(zip(over.tolist(), under.tolist(), strict=True)))

    weight, moment = dict.fromkeys(group, 0.0), dict.fromkeys(group, 0.0)
    for k in range(1, len(rows)):
        area = float(scene.size[rows[k]].prod())
        weight[group[k]] += area
        moment[group[k]] += area * float(scene.pose[rows[k], 0])
    rests: dict[int, list[tuple[float, float, int]]] = {g: [] for g in group}
    for a, b in zip(over.tolist(), under.tolist(), strict=True):
        if group[a] != group[b]:
            rests[group[a]].append((max(left[a], left[b]), min(right[a], right[b]), group[b]))
    floor = group[0]
    highest = {g: max(top[k] for k in range(len(rows)) if group[k] == g) for g in group}
    for g in sorted(set(group) - {floor}, key=lambda g: -highest[g]):
        x, supports = moment[g] / weight[g], sorted(rests[g])
        first, last = (supports[0][0], max(r for _, r, _ in supports)) if supports else (0.0, 0.0)
        if not supports or not first + margin <= x <= last - margin:
            return False
        x = min(max(x, first), last)  # a negative margin lets it lie a little outside
        under_x = [s for s in supports if s[0] <= x <= s[1]]
        if under_x:
            shares = [(under_x[0][2], 1.0, x)]
        else:
            _, before, one = max((s for s in supports if s[1] < x), key=lambda s: s[1])
            behind, _, two = min((s for s in supports if s[0] > x), key=lambda s: s[0])
            part = (x - before) / (behind - before)
            shares = [(one, 1 - part, before), (two, part, behind)]
        for other, share, at in shares:
            weight[other] += weight[g] * share
            moment[other] += weight[g] * share * at
    return True


def _groups(scene: Scene, rows: np.ndarray, touching: list[tuple[int, int]]) -> list[int]:
    """For each of `rows` the first of those that glue joins it to; a sticky block joins everything it touches."""
    at = {int(row): k for k, row in enumerate(rows)}
    group = list(range(len(rows)))

    def find(k: int) -> int:
        while group[k] != k:
            k = group[k]
        return k

    pairs = [(at[i], at[j]) for i, j in scene.glue.tolist() if i in at and j in at]
    pairs += [(a, b) for a, b in touching if scene.sticky[rows[a]] or scene.sticky[rows[b]]]
    for a, b in pairs:
        a, b = find(a), find(b)
        group[max(a, b)] = min(a, b)
    return [find(k) for k in range(len(rows))]
