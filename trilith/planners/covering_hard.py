"""Covering Hard: seven blocks, so every one has to be planned for; a beam search whose prospects are plain geometry.

What earns most is rarely an arch. One sticky block holds what it stands on and what is placed on it, so a chain in which
every second block is sticky can hang far over: if it begins with a sticky block on the floor, over almost anything.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trilith.planners.candidates import stands
from trilith.planners.coverage_state import XS, Shelter, running, stretches
from trilith.planners.registry import plans, scripts
from trilith.world.episode import State, step
from trilith.world.scene import SLOTS, Bools, Floats, Placement, Role, Scene
from trilith.world.tasks import get_task

GLUE = get_task("covering_hard").sticky_cost
BALANCE = 0.03
"""A block whose middle is less than this inside its supports needs glue."""
STEADY = 0.12
"""Metres of room that the script asks of the statics: with 0 it earns about 0.5 less, as not all stands that does by the numbers."""
GRIP = 0.3
"""Prospects assume that a block of a hanging chain shares this much with the one below it."""
BEGUN = 0.5
"""What a bare stretch counts, as a share of its length, once there are supports up to it at both ends."""
HOPE = 0.8
"""What prospects count beside what has been earned."""
DOUBT = 0.9
"""Each further block of a prospect counts this much less."""
LITTLE = 0.1
"""Less gain than this is not worth a block."""
LOOKED_AT = 12
"""Placements whose prospects the script compares."""
WIDTH = 40
"""Scenes that the search keeps after each placement."""
SIMULATED = 110
"""Most placements that it simulates in each round."""
CHILDREN = 10
"""Most placements that it considers in one scene, unless there are few scenes."""
APART = 0.4
"""Of placements of the same width in the same layer, closer than this, only the most promising is considered."""
SLACK = 0.05
"""Plain statics is a little stricter than the simulator: what fails it by less than this is simulated all the same."""


class _Node(NamedTuple):
    state: State
    done: list[Placement]
    view: Shelter


@scripts("covering_hard")
def script(scene: Scene) -> Placement | None:
    """The placement with the best prospects, None when nothing more can be gained."""
    view = Shelter(scene)
    choices: list[tuple[float, Placement | None]] = [(LITTLE, None)]
    for _, k, sticky in _ranked(view):
        placement, after = view.forecast(k, sticky, keep=False)
        if stands(after, STEADY):
            choices.append((float(view.gain[k]) - GLUE * sticky + HOPE * prospect(Shelter(after)), placement))
        if len(choices) > LOOKED_AT:
            break
    return max(choices, key=lambda choice: choice[0])[1]


@plans("covering_hard")
def plan(state: State) -> list[Placement]:
    """The best sequence found by beam search: many scenes side by side, each round the most promising placements in them."""
    best: list[Placement] = []
    most = state.total
    beam = [_Node(state, [], Shelter(state.scene))]
    while beam and not (best and most > 0.99 * state.rules.best(state.scene)):
        share = max(CHILDREN, SIMULATED // len(beam))
        ranked = [(node.state.total + hope, k, sticky, node) for node in beam for hope, k, sticky in _ranked(node.view)[:share]]
        ranked.sort(key=lambda one: -one[0])
        found: dict[bytes, tuple[float, _Node]] = {}
        left = SIMULATED
        for _, k, sticky, node in ranked:
            placement, forecast = node.view.forecast(k, sticky, keep=False)
            if not stands(forecast, -SLACK):
                continue
            after = step(node.state, placement).state
            done = [*node.done, placement]
            if after.ended in (None, "complete", "max_steps") and after.total > most:
                best, most = done, after.total
            key = _key(after.scene)
            if not after.ended and key not in found:
                view = Shelter(after.scene)
                found[key] = (after.total + HOPE * prospect(view), _Node(after, done, view))
            left -= 1
            if not left:
                break
        beam = [node for _, node in sorted(found.values(), key=lambda one: -one[0])[:WIDTH]]
    return best


def _ranked(view: Shelter) -> list[tuple[float, int, bool]]:
    """Placements worth looking at, best first: what each gains by itself and for supports, the option, sticky or not."""
    o = view.options
    layer, tips = o.layer, (o.balance < BALANCE) & ~o.held
    gain = view.gain + _raised(view)
    value = gain + 0.02 * np.minimum(o.balance, 0.5) - 0.01 * o.drop
    choices: list[tuple[float, int, bool]] = []
    for sticky in (False, True):
        worth = np.flatnonzero(o.safe & (sticky | ~tips) & (gain > (GLUE / 2 if sticky else LITTLE / 2)))
        choices += [(float(value[j]) - GLUE * sticky, j, sticky) for j in worth.tolist()]
    choices.sort(key=lambda choice: -choice[0])
    seen, result = set(), []
    for choice in choices:
        _, k, sticky = choice
        place = (int(layer[k]), float(o.width[k]), round(float(o.x[k]) / APART), sticky)
        if place not in seen:
            seen.add(place)
            result.append(choice)
    return result


def prospect(view: Shelter) -> float:
    """What could still be earned, if nothing fell: the best block again and again, on what stands or on the end of the last ones."""
    o = view.options
    layer, tips_over = o.layer, (o.balance < BALANCE) & ~o.held
    supply: dict[float, int] = {}
    for w in view.scene.size[:SLOTS, 0][view.scene.role[:SLOTS] == Role.AVAILABLE].tolist():
        supply[w] = supply.get(w, 0) + 1
    usable, bare, gain = o.safe.copy(), view.bare.copy(), view.gain
    ends: list[tuple[float, int, int, bool]] = []  # of blocks laid in thought: x, direction, layer, sticky
    value, trust = 0.0, 1.0
    while supply and len(o):
        net = np.where(usable, gain - GLUE * tips_over, 0.0)
        k = int(np.argmax(net))
        most, hanging = float(net[k]) * trust, None
        if ends:
            upto = running(bare)
            for e, (x, side, m, sticky) in enumerate(ends):
                for w in supply:
                    low, high = sorted((x - side * GRIP, x + side * (w - GRIP)))
                    i, j = np.searchsorted(XS, (low, high)).tolist()
                    if m + 1 in view.layers and view.taken[view.layers.index(m + 1), i:j].any():
                        continue
                    worth = sum(float(upto[n, j] - upto[n, i]) for n, at in enumerate(view.layers) if at <= m) - GLUE * (not sticky)
                    if worth * trust > most:
                        most, hanging = worth * trust, (e, w, low, high, i, j)
        if most < LITTLE:
            break
        value += most
        if hanging:
            e, w, low, high, i, j = hanging
            x, side, m, sticky = ends.pop(e)
            bare[[n for n, at in enumerate(view.layers) if at <= m], i:j] = False
            ends.append((high if side > 0 else low, side, m + 1, not sticky))
        else:
            w, x, m = float(o.width[k]), float(o.x[k]), int(layer[k])
            bare[view.over[k], view.first[k] : view.last[k]] = False
            ends += [(x + side * w / 2, side, m, bool(tips_over[k])) for side in (-1, 1)]
            usable &= (layer != m) | (np.abs(o.x - x) >= (o.width + w) / 2)
        supply[w] -= 1
        if not supply[w]:
            del supply[w]
            usable &= o.width != w
        gain = view.covers(bare)
        trust *= DOUBT
    return value + (BEGUN / HOPE * _begun(view, bare) if supply else 0.0)


def _columns(view: Shelter, bare: Bools) -> list[tuple[float, float, int, float, int]]:
    """For both ends of each bare stretch: from where to where a support is wanted, how high, for what length, how high it is now."""
    columns = []
    for n, cells in zip(view.layers, bare, strict=True):
        for begin, end in stretches(cells):
            for low, high in ((begin - 0.6, begin), (end, end + 0.6)):
                beside = (view.left < high) & (view.right > low) & (view.height <= n + 2)
                columns.append((low, high, n + 1, (end - begin) / 2, min(int(view.height[beside].max(initial=0)), n + 1)))
    return columns


def _begun(view: Shelter, bare: Bools) -> float:
    """Bare length, as far as supports beside it have been begun."""
    return sum(length * now / wanted for _, _, wanted, length, now in _columns(view, bare))


def _raised(view: Shelter) -> Floats:
    """(K,): by how much each option would raise what `_begun` counts, times BEGUN."""
    o = view.options
    left, right, layer = o.x - o.width / 2, o.x + o.width / 2, o.layer
    value = np.zeros(len(o))
    for low, high, wanted, length, now in _columns(view, view.bare):
        raised = np.maximum(np.minimum(layer + 1, wanted) - now, 0)
        value += np.where((left < high) & (right > low) & (layer <= wanted), raised, 0) * (length / wanted)
    return BEGUN * value


def _key(scene: Scene) -> bytes:
    """Scenes with the same blocks in about the same places count as one."""
    blocks = scene.rows(Role.BLOCK)
    rows = np.column_stack([scene.pose[blocks, :2] * 5, scene.size[blocks, 0] * 10, scene.sticky[blocks]])
    rows = np.rint(rows).astype(np.int64)
    return rows[np.lexsort(rows.T)].tobytes()
