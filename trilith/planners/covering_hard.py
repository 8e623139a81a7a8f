"""Script and planner for Covering Hard. There are only seven blocks, so the planner is a beam search. The search ranks scenes by the reward
so far and by their prospects, an estimate from geometry of the reward that can still be earned.

The best structure over an obstacle is rarely an arch. A sticky block holds the block below it and the blocks on top of it. So a chain in
which every second block is sticky can overhang far to one side. If the chain begins with a sticky block on the floor, it can reach over
almost any obstacle.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from trilith.planners.candidates import rounded_key, stands
from trilith.planners.coverage_state import CELL_X, CoverageState, running, stretches
from trilith.planners.registry import plans, scripts
from trilith.world.episode import State, step
from trilith.world.scene import Bools, Floats, Placement, Role, Scene
from trilith.world.tasks import get_task

GLUE_COST = get_task("covering_hard").sticky_cost
TIPS_BELOW = 0.03
"""A block is assumed to tip over without glue if its middle lies less than this many metres inside its range of support."""
STEADY_MARGIN = 0.12
"""Safety margin of the script in metres: every load of a pile must lie at least this far inside its supports. Without a margin the script
earns about 0.5 less reward, because it builds some piles that fall in the simulator."""
HANGING_OVERLAP = 0.3
"""Assumed horizontal overlap, in metres, of two consecutive blocks of a chain that overhangs to one side, held by glue."""
BEGUN_VALUE = 0.5
"""Value of one metre of an obstacle that is not covered yet, but has complete columns of blocks at both ends to carry a cover."""
PROSPECT_WEIGHT = 0.8
"""Weight of a scene's prospects (the estimated reward that can still be earned) relative to the reward so far."""
PROSPECT_DISCOUNT = 0.9
"""Discount factor of `prospect`: the gain of the n-th imagined block, from 0, counts PROSPECT_DISCOUNT ** n times."""
MIN_PROSPECT = 0.1
"""In units of reward: the script stops if no placement has a higher sum of reward and weighted `prospect`, and `prospect` stops when the
next discounted gain would be smaller."""
COMPARED_PLACEMENTS = 12
"""Maximum number of placements that the script compares by the reward that could be earned after them."""
BEAM_WIDTH = 40
"""Maximum number of scenes that the beam search keeps after each round."""
ROUND_SIMULATIONS = 110
"""Maximum number of placements that the beam search simulates in each round."""
BEAM_CHILDREN = 10
"""The beam search considers this many of the most promising placements in one scene, or ROUND_SIMULATIONS divided by the number of scenes
in the beam, if that is more."""
CELL_APART = 0.4
"""Width of a cell of x, in metres. Placements are similar if they agree in block width, layer, cell and glue. Of similar placements, only
the most promising is considered."""
BEAM_SLACK = 0.05
"""The planner simulates a placement only if it estimates that the blocks will stand. The estimate is a little stricter than the simulator,
so it lets a load lie up to this many metres outside its supports."""


class _Node(NamedTuple):
    state: State
    done: list[Placement]
    view: CoverageState


@scripts("covering_hard")
def script(scene: Scene) -> Placement | None:
    """The placement with the highest sum of its reward and PROSPECT_WEIGHT times the `prospect` after it; None if no sum exceeds
    MIN_PROSPECT."""
    view = CoverageState(scene)
    choices: list[tuple[float, Placement | None]] = [(MIN_PROSPECT, None)]
    for _, k, sticky in _ranked(view):
        placement, after = view.forecast(k, sticky, keep=False)
        if stands(after, STEADY_MARGIN):
            choices.append((float(view.gain[k]) - GLUE_COST * sticky + PROSPECT_WEIGHT * prospect(CoverageState(after)), placement))
        if len(choices) > COMPARED_PLACEMENTS:
            break
    return max(choices, key=lambda choice: choice[0])[1]


@plans("covering_hard")
def plan(state: State) -> list[Placement]:
    """The best sequence of placements that a beam search finds; empty if none gains anything. The beam is a list of scenes. Each round of
    the search simulates the most promising placements in all scenes of the beam. The best scenes that result are the next beam."""
    best: list[Placement] = []
    most = state.total
    beam = [_Node(state, [], CoverageState(state.scene))]
    while beam and not (best and most > 0.99 * state.rules.best(state.scene)):
        share = max(BEAM_CHILDREN, ROUND_SIMULATIONS // len(beam))
        ranked = [(node.state.total + hope, k, sticky, node) for node in beam for hope, k, sticky in _ranked(node.view)[:share]]
        ranked.sort(key=lambda one: -one[0])
        found: dict[bytes, tuple[float, _Node]] = {}
        left = ROUND_SIMULATIONS
        for _, k, sticky, node in ranked:
            placement, forecast = node.view.forecast(k, sticky, keep=False)
            if not stands(forecast, -BEAM_SLACK):
                continue
            after = step(node.state, placement).state
            done = [*node.done, placement]
            if after.ended in (None, "complete", "max_steps") and after.total > most:
                best, most = done, after.total
            key = rounded_key(after.scene, 5)
            if not after.ended and key not in found:
                view = CoverageState(after.scene)
                found[key] = (after.total + PROSPECT_WEIGHT * prospect(view), _Node(after, done, view))
            left -= 1
            if not left:
                break
        beam = [node for _, node in sorted(found.values(), key=lambda one: -one[0])[:BEAM_WIDTH]]
    return best


def _ranked(view: CoverageState) -> list[tuple[float, int, bool]]:
    """The placements worth considering, as (value, index of the option, sticky), the highest value first. Of similar placements only the
    best is listed (see `CELL_APART`).

    The value, in units of reward, is the length that the block newly covers, plus a value for supports of later covers, minus the cost of
    glue. Small terms prefer balanced blocks and short falls.
    """
    o = view.options
    layer, tips = o.layer, (o.balance < TIPS_BELOW) & ~o.held
    gain = view.gain + _raised(view)
    value = gain + 0.02 * np.minimum(o.balance, 0.5) - 0.01 * o.drop
    choices: list[tuple[float, int, bool]] = []
    for sticky in (False, True):
        worth = np.flatnonzero(o.safe & (sticky | ~tips) & (gain > (GLUE_COST / 2 if sticky else MIN_PROSPECT / 2)))
        choices += [(float(value[j]) - GLUE_COST * sticky, j, sticky) for j in worth.tolist()]
    best: dict[tuple[int, float, int, bool], tuple[float, int, bool]] = {}
    for choice in sorted(choices, key=lambda choice: -choice[0]):
        _, k, sticky = choice
        best.setdefault((int(layer[k]), float(o.width[k]), round(float(o.x[k]) / CELL_APART), sticky), choice)
    return list(best.values())


def prospect(view: CoverageState) -> float:
    """Estimates the reward that can still be earned if nothing falls. Imagined blocks are added one after another, each time the one that
    gains most. The gain of a block is the length that it newly covers, minus the cost of glue if it would tip over without. Later gains
    count less.

    An imagined block is put in one of two kinds of place: where a legal placement of the present scene would come to rest, or on top of the
    end of an imagined block, so that it sticks out to the side. If blocks remain at the end, a small value is added for columns that could
    support later covers.
    """
    o = view.options
    layer, tips_over = o.layer, (o.balance < TIPS_BELOW) & ~o.held
    supply = Counter(view.scene.size[view.scene.rows(Role.AVAILABLE), 0].tolist())
    usable, bare, gain = o.safe.copy(), view.bare.copy(), view.gain
    ends: list[tuple[float, int, int, bool]] = []  # ends of imagined blocks: x, direction, layer, sticky
    value, trust = 0.0, 1.0
    while supply and len(o):
        net = np.where(usable, gain - GLUE_COST * tips_over, 0.0)
        k = int(np.argmax(net))
        most, hanging = float(net[k]) * trust, None
        if ends:
            upto = running(bare)
            for e, (x, side, m, sticky) in enumerate(ends):
                for w in supply:
                    low, high = sorted((x - side * HANGING_OVERLAP, x + side * (w - HANGING_OVERLAP)))
                    i, j = np.searchsorted(CELL_X, (low, high)).tolist()
                    if m + 1 in view.layers and view.taken[view.layers.index(m + 1), i:j].any():
                        continue
                    worth = sum(float(upto[n, j] - upto[n, i]) for n, at in enumerate(view.layers) if at <= m) - GLUE_COST * (not sticky)
                    if worth * trust > most:
                        most, hanging = worth * trust, (e, w, low, high, i, j)
        if most < MIN_PROSPECT:
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
        trust *= PROSPECT_DISCOUNT
    return value + (BEGUN_VALUE / PROSPECT_WEIGHT * _begun(view, bare) if supply else 0.0)


def _columns(view: CoverageState, bare: Bools) -> list[tuple[float, float, int, float, int]]:
    """Lists the columns of blocks that are needed to cover uncovered stretches of obstacles: one at each end of a stretch. `bare` (layers,
    cells) is True where an obstacle is uncovered.

    A column is (x of its left side, x of its right side, needed height, half the length of the stretch, height built so far). Heights are
    in layers, lengths in metres.
    """
    columns = []
    for n, cells in zip(view.layers, bare, strict=True):
        for begin, end in stretches(cells):
            for low, high in ((begin - 0.6, begin), (end, end + 0.6)):
                beside = (view.left < high) & (view.right > low) & (view.height <= n + 2)
                columns.append((low, high, n + 1, (end - begin) / 2, min(int(view.height[beside].max(initial=0)), n + 1)))
    return columns


def _begun(view: CoverageState, bare: Bools) -> float:
    """Adds up the lengths of all uncovered stretches of obstacles, in metres. Each length is first multiplied by the fraction of the
    stretch's two columns (see `_columns`) that is already built. `bare` (layers, cells) is True where an obstacle is uncovered."""
    return sum(length * now / wanted for _, _, wanted, length, now in _columns(view, bare))


def _raised(view: CoverageState) -> Floats:
    """(K,): for each of K options, the value of what its block adds to the columns that later covers need: the increase of the result of
    `_begun`, times BEGUN_VALUE."""
    o = view.options
    left, right, layer = o.x - o.width / 2, o.x + o.width / 2, o.layer
    value = np.zeros(len(o))
    for low, high, wanted, length, now in _columns(view, view.bare):
        raised = np.maximum(np.minimum(layer + 1, wanted) - now, 0)
        value += np.where((left < high) & (right > low) & (layer <= wanted), raised, 0) * (length / wanted)
    return BEGUN_VALUE * value
