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
"""Value of each missing support that a block provides, in metres of covered length (see `CoverageState.supports`)."""
MIN_GAIN = 0.03
"""A block is not placed if it gains less than this many metres of covered length. A support counts as SUPPORT_GAIN."""
PLACEMENT_TRIES = 12
"""Maximum number of placements that an attempt of the planner simulates in one scene. If all fail, the attempt ends there."""
COVERING_PLANS = 20
"""Maximum number of attempts of the planner. Each builds one sequence of placements, from the state in which planning starts."""
SCORE_NOISE = 0.15
"""Scale, in metres, of the Gumbel noise that the planner adds to a placement's score. Its first attempt has no noise."""
FALLEN = 0.15
"""A block counts as fallen if it comes to rest farther than this many metres, in x or in y, from its forecast position."""


@scripts("covering")
def script(scene: Scene) -> Placement | None:
    """The next placement; None when nothing more can be gained. Never sticky, because glue costs 2.

    As in the paper, it builds layer by layer, wide blocks first: beside the obstacles of a layer, then over them, then columns up to the
    next obstacles. The paper's script also fills all other gaps of a layer; this one does not.
    """
    view = CoverageState(scene)
    for k in _ranked(view, SCRIPT_MARGIN, None).tolist():
        placement, after = view.forecast(k, sticky=False, keep=True)
        if stands(after, SCRIPT_MARGIN):
            return placement
    return None


@plans("covering")
def plan(state: State) -> list[Placement]:
    """The best sequence of placements that several attempts find; empty if none gains anything.

    An attempt simulates one placement after another. It tries them in the order of the script, changed by random noise in all attempts but
    the first. If a placed block falls, causes others to fall or touches an obstacle, the placement is undone and the next one is tried. No
    further attempt is made once everything is covered.
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
    """The indices of the options (possible placements) to try, in this order: lower layers first, and within a layer the highest score
    first. With `rng`, random noise is added to the scores.

    An option must meet three conditions: its block falls past obstacles at a safe distance, gains more than MIN_GAIN, and comes to rest
    with its middle at least `balance` metres inside its range of support.
    """
    o = view.options
    gain = view.gain + SUPPORT_GAIN * view.supports()
    k = np.flatnonzero(o.safe & (o.balance >= balance) & (gain > MIN_GAIN))
    score = gain[k] + 0.02 * o.width[k] + 0.05 * np.minimum(o.balance[k], 0.3) - 0.02 * o.drop[k]
    if rng is not None:
        score += rng.gumbel(0, SCORE_NOISE, len(k))
    return k[np.lexsort((-score, o.layer[k]))]


def _try(state: State, rng: np.random.Generator | None) -> tuple[Placement, State] | None:
    """Simulates placements in the order of `_ranked`, until one succeeds: its block comes to rest at its forecast position (see
    `FALLEN`), the total falls by less than `MIN_GAIN`, and no obstacle is touched. Returns this placement and the state after it, or None
    if no placement succeeds."""
    view = CoverageState(state.scene)
    for k in _ranked(view, 0.0, rng)[:PLACEMENT_TRIES].tolist():
        placement = view.options.placement(k)
        after = step(state, placement).state
        x, y, _ = after.scene.pose[-1]
        stays = abs(x - view.options.x[k]) < FALLEN and abs(y - view.options.rest[k]) < FALLEN
        if stays and after.ended in (None, "complete", "max_steps") and after.total > state.total - MIN_GAIN:
            return placement, after
    return None
