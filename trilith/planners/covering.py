"""Covering: layer by layer, supports beside the obstacles first, then blocks across them."""

from __future__ import annotations

import numpy as np

from trilith.planners.candidates import stands
from trilith.planners.coverage_state import Shelter
from trilith.planners.registry import plans, scripts
from trilith.world.episode import State, step
from trilith.world.scene import Ints, Placement, Scene

BALANCE = 0.04
"""The script wants the middle of a block, and the weight on it, at least this far inside its supports."""
SUPPORT = 0.5
"""What a support beside an obstacle counts, in metres of covered length."""
LITTLE = 0.03
"""Less gain than this is not worth a block."""
TRIES = 12
"""How many placements a plan tries before it gives up a scene half built."""
ATTEMPTS = 20
"""How many plans are tried."""
WHIM = 0.15
"""Scale of the random part of a placement's score, from the second plan on."""
STRAY = 0.15
"""A block that comes to rest farther than this from where it should be has fallen."""


@scripts("covering")
def script(scene: Scene) -> Placement | None:
    """The next placement, None when nothing more can be gained. Never sticky: glue costs 2.

    As in the paper, layer by layer and wide blocks first: in layers with obstacles beside them, in the layers between over them,
    then wherever a column has to go on up to the next obstacles. Unlike the paper's it does not fill what no obstacle needs.
    """
    view = Shelter(scene)
    for k in _ranked(view, BALANCE, None).tolist():
        placement, after = view.forecast(k, sticky=False, keep=True)
        if stands(after, BALANCE):
            return placement
    return None


@plans("covering")
def plan(state: State) -> list[Placement]:
    """The best of a number of scripts played in the simulator, each with other whims; done once everything is covered.

    A placement that falls, tears down or touches an obstacle is taken back, and the next best one tried.
    """
    best: list[Placement] = []
    most = state.total
    for attempt in range(ATTEMPTS):
        rng = np.random.default_rng(attempt) if attempt else None
        here, done = state, list[Placement]()
        while not here.ended:
            found = _try(here, rng)
            if found is None:
                break
            placement, here = found
            done = [*done, placement]
            if here.total > most:
                best, most = done, here.total
        if here.ended == "complete":
            break
    return best


def _ranked(view: Shelter, balance: float, rng: np.random.Generator | None) -> Ints:
    """The options worth trying, best first: the lowest layer, there the greatest gain."""
    o = view.options
    gain = view.gain + SUPPORT * view.supports()
    k = np.flatnonzero(o.safe & (o.balance >= balance) & (gain > LITTLE))
    score = gain[k] + 0.02 * o.width[k] + 0.05 * np.minimum(o.balance[k], 0.3) - 0.02 * o.drop[k]
    if rng is not None:
        score += rng.gumbel(0, WHIM, len(k))
    return k[np.lexsort((-score, o.layer[k]))]


def _try(state: State, rng: np.random.Generator | None) -> tuple[Placement, State] | None:
    """The first placement that stays where it should be, and what it leads to."""
    view = Shelter(state.scene)
    for k in _ranked(view, 0.0, rng)[:TRIES].tolist():
        placement = view.options.placement(k)
        after = step(state, placement).state
        x, y, _ = after.scene.pose[-1]
        stays = abs(x - view.options.x[k]) < STRAY and abs(y - view.options.rest[k]) < STRAY
        if stays and after.ended in (None, "complete", "max_steps") and after.total > state.total - LITTLE:
            return placement, after
    return None
