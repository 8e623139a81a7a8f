"""A task of your own: build as high as you can. In the folder of this file:

trilith evaluate scripted --task own_task:Tower --scenes 200
trilith train --task own_task:Tower --minutes 10 --out /tmp/tower
"""

import numpy as np

from trilith.planners import scripts
from trilith.world.scene import BLOCK_HEIGHT, Placement, Role, Scene, fresh_scene
from trilith.world.tasks.task import BASE_OBJECTS, Level, Task, obstacle_layer, uniform

STEPS = 10


class Tower(Task):
    """Build as high as you can, past the obstacles of the third layer.

    ## Reward
    The change of the height in metres of the highest block's top; −0.5 for each sticky block.

    ## End
    A height above 98 % of ten blocks; 10 steps; an obstacle touched; a placement that is not possible.

    ## Levels
    Level d from 0 to 2 has d + 1 obstacles.
    """

    name, title, unit = "tower", "Tower", "m"
    levels = (0, 1, 2)
    mix = uniform(levels)
    sticky_cost = 0.5

    def generate(self, rng: np.random.Generator, level: Level) -> Scene:
        count = int(level) + 1
        return fresh_scene([], obstacle_layer(rng, 2, (count, count), (0.7, 2.1)))

    def score(self, scene: Scene) -> float:
        tops = scene.pose[scene.rows(Role.BLOCK), 1] + BLOCK_HEIGHT / 2
        return float(np.clip(tops.max(initial=0.0), 0.0, self.best(scene)))

    def best(self, scene: Scene) -> float:
        return STEPS * BLOCK_HEIGHT

    def complete(self, scene: Scene, score: float) -> bool:
        return score > 0.98 * self.best(scene)

    def max_steps(self, scene: Scene, level: Level) -> int:
        return STEPS

    def max_objects(self, level: Level) -> int:
        return BASE_OBJECTS + int(level) + 1 + STEPS


@scripts("tower")
def at_the_edge(scene: Scene) -> Placement | None:
    """The script of the agent `scripted` for this task: a stack of small blocks, left of the obstacles."""
    top = scene.pose[scene.rows(Role.BLOCK), 1].max(initial=-BLOCK_HEIGHT / 2)
    return Placement(0, -7.5, float(top) + BLOCK_HEIGHT + 0.01)
