"""Script and planner for Covering. They build layer by layer: first supports beside the obstacles, then blocks across the obstacles."""

from __future__ import annotations

import numpy as np

from trilith.planners.candidates import stands
from trilith.planners.coverage_state import CoverageState
from trilith.planners.registry import plans, scripts
from trilith.world.episode import State, step
from trilith.world.scene import Ints, Placement, Scene

SCRIPT_MARGIN = 0.04
"""Safety margin of the script in metres: the middle of a block, and every load on it, must lie at least this far inside the range of
support."""
SUPPORT_GAIN = 0.5
"""Value of a support beside an obstacle, in metres of covered length."""
MIN_GAIN = 0.03
"""A block is not placed if it gains less than this many metres."""
PLACEMENT_TRIES = 12
"""Maximum number of placements that are simulated in one scene. If all fail, the plan ends there."""
COVERING_PLANS = 20
"""Maximum number of plans."""
SCORE_NOISE = 0.15
"""Scale of the Gumbel noise that is added to a placement's score, in metres. The first plan has no noise."""
FALLEN = 0.15
"""A block has fallen if it comes to rest farther than this many metres from its forecast position."""


@scripts("covering")
def script(scene: Scene) -> Placement | None:
    """The next placement; None when nothing more can be gained. Never sticky, because glue costs 2.

    As in the paper, it builds layer by layer, wide blocks first: beside the obstacles of a layer, then over them, then columns up to
    the next obstacles. Unlike the paper's script, it does not fill gaps that no obstacle needs.
    """
    view = CoverageState(scene)
    for k in _ranked(view, SCRIPT_MARGIN, None).tolist():
        placement, after = view.forecast(k, sticky=False, keep=True)
        if stands(after, SCRIPT_MARGIN):
            return placement
    return None


@plans("covering")
def plan(state: State) -> list[Placement]:
    """The best of several plans; empty if no plan gains anything. Each plan orders placements as the script does, with its own random
    noise. Planning stops at the first plan that covers everything.

    If a placed block falls, causes others to fall or touches an obstacle, its placement is undone. Then the next best placement is tried.
    """
    best: list[Placement] = []
    most = state.total
    for attempt in range(COVERING_PLANS):
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


def _ranked(view: CoverageState, balance: float, rng: np.random.Generator | None) -> Ints:
    """The indices of the options worth trying: lower layers first, and within a layer the highest score first. Options with a smaller
    `balance` than the argument are left out."""
    o = view.options
    gain = view.gain + SUPPORT_GAIN * view.supports()
    k = np.flatnonzero(o.safe & (o.balance >= balance) & (gain > MIN_GAIN))
    score = gain[k] + 0.02 * o.width[k] + 0.05 * np.minimum(o.balance[k], 0.3) - 0.02 * o.drop[k]
    if rng is not None:
        score += rng.gumbel(0, SCORE_NOISE, len(k))
    return k[np.lexsort((-score, o.layer[k]))]


def _try(state: State, rng: np.random.Generator | None) -> tuple[Placement, State] | None:
    """Simulates placements in the order of `_ranked`. Returns the first placement for which the block comes to rest at its forecast
    position, and the state after this placement. None if there is no such placement."""
    view = CoverageState(state.scene)
    for k in _ranked(view, 0.0, rng)[:PLACEMENT_TRIES].tolist():
        placement = view.options.placement(k)
        after = step(state, placement).state
        x, y, _ = after.scene.pose[-1]
        stays = abs(x - view.options.x[k]) < FALLEN and abs(y - view.options.rest[k]) < FALLEN
        if stays and after.ended in (None, "complete", "max_steps") and after.total > state.total - MIN_GAIN:
            return placement, after
    return None
