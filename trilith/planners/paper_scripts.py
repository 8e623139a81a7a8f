"""The scripts of the paper's appendix (§A.2) as printed, for comparison. The scripts in `silhouette.py` and `covering.py` earn more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from trilith.planners.candidates import CODEC
from trilith.planners.coverage_state import CoverageState
from trilith.world.actions import OFFSETS
from trilith.world.episode import State
from trilith.world.geometry.rectangles import boxes
from trilith.world.scene import SLOTS, Placement, Role, Scene
from trilith.world.tasks.silhouette import filled
from trilith.world.tasks.task import SPACING

MIDDLE = OFFSETS // 2
"""Index of the horizontal offset with which a block lies exactly in the middle of its target."""
LAYER_SLACK = 0.15
"""Two surfaces belong to the same layer if their heights differ by less than this many metres."""
LEAST_BALANCE = 0.02
"""The middle of a block must lie at least this many metres inside its range of support."""
LEAST_GAIN = 0.03
"""A block counts as covering nothing if it adds less covered length than this, in metres."""


class PaperScript:
    """An agent that follows the paper's scripts for Silhouette and Covering. The paper has no script for the other tasks."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """The placement that the script chooses in each state. None means stop: the script has no placement. Raises ValueError if the task
        has no script."""
        return [self._script(state.task)(state.scene) for state in states]

    @staticmethod
    def _script(task: str) -> Callable[[Scene], Placement | None]:
        if task not in SCRIPTS:
            raise ValueError(f"the paper has no script for {task}: it has one for {', '.join(SCRIPTS)}")
        return SCRIPTS[task]


def silhouette(scene: Scene) -> Placement | None:
    """The next placement of the paper's script for Silhouette; None if no unfilled target has room. Fills targets layer by
    layer, from the centre to the sides.

    A block gets glue if two conditions hold: its centre of mass is not supported from the layer below, and all blocks that it will touch
    are without glue. A block on the floor is always supported.
    """
    targets = scene.rows(Role.TARGET)
    slots = {int(t): int(np.argmin(np.abs(scene.size[:SLOTS, 0] - scene.size[t, 0]))) for t in targets[~filled(scene)]}
    fits = CODEC.mask(scene)[:, :, MIDDLE]
    free = [target for target, slot in slots.items() if fits[slot, target]]
    if not free:
        return None
    centre = scene.pose[targets, 0].mean()
    target = min(free, key=lambda t: (round(scene.pose[t, 1] / SPACING), abs(scene.pose[t, 0] - centre), t))
    (x, y, _), (width, height) = scene.pose[target].tolist(), scene.size[target].tolist()
    blocks = scene.rows(Role.BLOCK)
    left, right, bottom, top = boxes(scene.pose[blocks], scene.size[blocks])
    meets = (left < x + width / 2) & (right > x - width / 2)
    under, over = meets & (np.abs(top - y + height / 2) < LAYER_SLACK), meets & (np.abs(bottom - y - height / 2) < LAYER_SLACK)
    on_floor = y - height / 2 < LAYER_SLACK
    supported = on_floor or bool(under.any() and left[under].min() <= x <= right[under].max())
    sticky = not supported and not scene.sticky[blocks][under | over].any()
    return CODEC.decode(scene, (slots[target], target, MIDDLE, int(sticky)))


def covering(scene: Scene) -> Placement | None:
    """The next placement of the paper's script for Covering; None if no block would stay balanced, or there is no obstacle. Never sticky.

    Builds layer by layer, large blocks first. A layer with obstacles is filled between the obstacles. In a layer without obstacles, first
    the obstacles below are covered, then the rest is filled.
    """
    if not len(scene.rows(Role.OBSTACLE)):
        return None
    view = CoverageState(scene)
    o = view.options
    possible = o.safe & (o.balance >= LEAST_BALANCE)
    for layer in range(max(view.layers) + 2):
        here = possible & (o.layer == layer)
        covers = here & (view.gain > LEAST_GAIN)
        if layer not in view.layers and covers.any():
            here = covers
        k = np.flatnonzero(here)
        if len(k):
            return o.placement(int(k[np.lexsort((o.x[k], -view.gain[k], -o.width[k]))[0]]))
    return None


SCRIPTS: dict[str, Callable[[Scene], Placement | None]] = {"silhouette": silhouette, "covering": covering}
