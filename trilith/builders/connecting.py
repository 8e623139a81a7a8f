"""Connecting: paths of glued blocks from the floor, or from what stands already, past the obstacles to the targets."""

from __future__ import annotations

import numpy as np

from trilith.actions import CLEARANCE
from trilith.builders.options import CODEC, SAFE, options
from trilith.episode import State, step
from trilith.geometry import extents
from trilith.scene import BLOCK_HEIGHT, PLACE_X, SLOT_WIDTHS, Placement, Role, Scene
from trilith.tasks.connecting import reached
from trilith.tasks.task import SPACING

WIDTHS = np.array(sorted(set(SLOT_WIDTHS)))
CELL = 0.1
GRIP = 0.15
WIDE = 0.03
LEAN = 0.5
DROP = 0.3
CLEAR = 0.12
TIGHT = 0.5


def script(scene: Scene, noise=None) -> Placement | None:
    opts = options(scene)
    grip = opts.right - opts.left
    ok = np.flatnonzero(opts.safe & (grip >= GRIP))
    targets = scene.rows(Role.TARGET)[~np.asarray(reached(scene), dtype=bool)]
    tl = np.rint((scene.pose[targets, 1] - .35) / SPACING).astype(int)
    if not len(ok) or not len(targets):
        return None
    solid = np.flatnonzero(scene.solid & (scene.role != Role.FLOOR))
    half = extents(scene.pose[solid], scene.size[solid])
    boxes = np.column_stack([scene.pose[solid, :2], half])
    isob = scene.role[solid] == Role.OBSTACLE
    layer = opts.layer
    nx = nw = nc = nr = np.zeros(0)
    best = (np.inf, -1)
    for L in range(tl.max() + 1):
        k = ok[layer[ok] == L]
        x, w, root = opts.x[k], opts.width[k], k
        cost = 1 + WIDE * w + LEAN * w * np.maximum(0, -opts.balance[k]) + DROP * opts.drop[k]
        if len(nx):
            for cw in WIDTHS:
                ex = nx[:, None] + CODEC.grid(nw, cw)
                lean = np.abs(ex - nx[:, None])
                g = (nw[:, None] + cw) / 2 - lean
                c = nc[:, None] + 1 + WIDE * cw + LEAN * cw * np.maximum(0, lean - nw[:, None] / 2)
                keep = (g >= GRIP) & (np.abs(ex) <= PLACE_X[1])
                ex, c = ex[keep], c[keep]
                r = np.broadcast_to(nr[:, None], keep.shape)[keep]
                y = .35 + SPACING * L
                low, high = y - .35, y + .35 + CLEARANCE
                near = np.where(isob, (boxes[:, 1] - boxes[:, 3] < high + SAFE) & (boxes[:, 1] + boxes[:, 3] > low - SAFE),
                                (boxes[:, 1] - boxes[:, 3] < high - .02) & (boxes[:, 1] + boxes[:, 3] > low + .1))
                b = boxes[near]
                margin = np.where(isob[near], SAFE, 0)
                hit = (np.abs(ex[:, None] - b[:, 0]) < cw / 2 + b[:, 2] + margin).any(axis=1)
                tight = (np.abs(ex[:, None] - b[isob[near], 0]) < cw / 2 + b[isob[near], 2] + CLEAR).any(axis=1)
                c = c + TIGHT * tight
                ex, c, r = ex[~hit], c[~hit], r[~hit]
                x = np.concatenate([x, ex]); w = np.concatenate([w, np.full(len(ex), cw)]); cost = np.concatenate([cost, c]); root = np.concatenate([root, r])
        if noise is not None:
            cost = cost + noise.uniform(0, .3, len(cost))
        key = np.rint(x / CELL) * 10 + np.rint(w)
        order = np.lexsort((cost, key))
        first = order[np.diff(key[order], prepend=np.inf) != 0]
        nx, nw, nc, nr = x[first], w[first], cost[first], root[first].astype(int)
        for t in targets[tl == L]:
            inside = np.flatnonzero(np.abs(nx - scene.pose[t, 0]) < nw / 2 - .03)
            if len(inside):
                j = inside[np.argmin(nc[inside])]
                if nc[j] < best[0]:
                    best = (nc[j], nr[j])
    if best[1] < 0:
        return None
    return opts.placement(int(best[1]), sticky=True)


def plan(state):
    out = []
    while not state.ended:
        p = script(state.scene)
        if p is None:
            break
        out.append(p)
        state = step(state, p).state
    return out
