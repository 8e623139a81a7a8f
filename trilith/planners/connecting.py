"""Script and planner for Connecting. They build chains of glued blocks. A chain starts on the floor or on a placed block, and leads past
the obstacles to a target.

Glue is free here, so every block is sticky. The step limit allows three chains from the floor, so the stability of a chain matters more
than its length. A block in the layer above or below an obstacle is only 0.175 m away from it.
"""

from __future__ import annotations

import numpy as np

from trilith.planners.candidates import CODEC, GRID, Options, options
from trilith.planners.registry import plans, scripts
from trilith.world.episode import State, step
from trilith.world.geometry.chains import SHARED_WIDTH, Chain, Surroundings, cheapest_chain, start_links
from trilith.world.geometry.rectangles import boxes
from trilith.world.scene import SLOT_WIDTHS, Placement, Role, Scene
from trilith.world.tasks.connecting import reached
from trilith.world.tasks.task import SPACING, layer_y

CHAIN_SEARCHES = 30
"""Number of attempts of the planner when an episode is planned from its start. One attempt builds chains of blocks until the episode ends
or too many chains have failed."""
CHAIN_SEARCHES_MIDWAY = 4
"""Number of attempts of the planner when an episode is planned from a later state. The steps left are then often too few for all targets,
and more attempts gain little. Measured in 60 states of episodes in which an agent failed: 4 attempts gain a mean reward of 0.60, and 30
attempts gain 0.63 in five times the time."""
FAILED_CHAINS = 6
"""An attempt of the planner ends when this many of its chains of blocks have failed."""


@scripts("connecting")
def script(scene: Scene) -> Placement | None:
    """The first placement of the cheapest chain of glued blocks that leads to an unreached target; None if there is no such chain."""
    opts = options(scene)
    chain = cheapest(opts)
    return None if chain is None else opts.placement(chain.root, sticky=True)


@plans("connecting")
def plan(state: State) -> list[Placement]:
    """Builds chains of glued blocks to the targets in the simulator, in several attempts. Returns the best sequence of placements of all
    attempts; empty if no sequence gains anything.

    An attempt builds one chain after another, each time the cheapest to any target that is not yet reached. After its first failure, an
    attempt adds random noise to the costs; all attempts but the first do so from the start. A chain fails if it earns nothing or touches an
    obstacle. The attempt then undoes at least the last block of the chain, and a random number of blocks before it, and resumes there.
    """
    best: list[Placement] = []
    most = state.total
    for attempt in range(CHAIN_SEARCHES_MIDWAY if state.steps else CHAIN_SEARCHES):
        rng = np.random.default_rng(attempt)
        here, done, failed = state, list[Placement](), 0
        while not here.ended and failed < FAILED_CHAINS:
            opts = options(here.scene)
            chain = cheapest(opts, rng if attempt or failed else None)
            if chain is None:
                break
            placements, states = _build(here, opts, chain)
            kept = len(placements)
            if states[-1].total <= here.total or states[-1].ended == "obstacle_hit":
                failed += 1
                kept = int(rng.integers(kept))
            if kept:
                here, done = states[kept - 1], done + placements[:kept]
            if here.total > most:
                best, most = done, here.total
        if here.ended == "complete":
            break
    return best


def _build(state: State, opts: Options, chain: Chain) -> tuple[list[Placement], list[State]]:
    """Builds `chain` in the simulator, until the chain or the episode ends. `opts` are the options of the scene of `state`. Returns two
    lists: the placements, and the state after each placement."""
    placements = [opts.placement(chain.root, sticky=True)]
    states = [step(state, placements[0]).state]
    for width, offset in chain.rest:
        if states[-1].ended:
            break
        scene = states[-1].scene
        placements.append(CODEC.decode(scene, (SLOT_WIDTHS.index(width), len(scene) - 1, offset, 1)))
        states.append(step(states[-1], placements[-1]).state)
    return placements, states


def cheapest(opts: Options, rng: np.random.Generator | None = None) -> Chain | None:
    """The cheapest chain of glued blocks to any target that is not yet reached; None if there is none. `opts` are the options of a scene,
    and the field `root` of the result is the index of the option for the first block. With `rng`, random noise is added to the costs."""
    scene = opts.scene
    targets = scene.rows(Role.TARGET)[~reached(scene)]
    target_layer = np.rint((scene.pose[targets, 1] - layer_y(0)) / SPACING).astype(np.int64)
    obstacles, blocks = scene.rows(Role.OBSTACLE), scene.rows(Role.BLOCK)
    around = Surroundings(
        np.column_stack([scene.pose[obstacles, :2], scene.size[obstacles]]),
        boxes(scene.pose[blocks], scene.size[blocks]),
        np.unique(SLOT_WIDTHS),
        GRID,
    )
    k = np.flatnonzero(opts.safe & (opts.right - opts.left >= SHARED_WIDTH))
    starts = start_links(k, opts.x[k], opts.width[k], opts.rest[k], opts.drop[k], opts.left[k], opts.right[k], around.obstacles)
    heights = np.array([layer_y(number) for number in range(target_layer.max(initial=-1) + 1)])
    return cheapest_chain(starts, opts.layer[k], heights, scene.pose[targets, 0], target_layer, around, rng)
