"""trilith: agents that learn to build with blocks.

    import numpy as np, trilith

    state = trilith.start("covering", "hardest", np.random.default_rng(0))
    state, reward, _ = trilith.step(state, trilith.Placement(slot=6, x=-5.0, y=0.4))

The names in `__all__` are the public interface; all others are internal. `import trilith` registers the Gymnasium environments. It loads
neither the physics engine nor torch: every public name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium as _gymnasium

if TYPE_CHECKING:
    from trilith.agents.base import Agent as Agent
    from trilith.agents.registry import load as load
    from trilith.envs.registration import register as register
    from trilith.evaluation.play import play as play
    from trilith.evaluation.runner import evaluate as evaluate
    from trilith.evaluation.scene_sets import start_in_set as start_in_set
    from trilith.training.run import train as train
    from trilith.world.episode import State as State
    from trilith.world.episode import Step as Step
    from trilith.world.episode import start as start
    from trilith.world.episode import step as step
    from trilith.world.scene import Placement as Placement
    from trilith.world.scene import Role as Role
    from trilith.world.scene import Scene as Scene
    from trilith.world.tasks.registry import get_task as get_task
    from trilith.world.tasks.task import Task as Task

__version__ = "0.1.0"

_ROOMS = {
    "Agent": "agents.base",
    "Placement": "world.scene",
    "Role": "world.scene",
    "Scene": "world.scene",
    "State": "world.episode",
    "Step": "world.episode",
    "Task": "world.tasks.task",
    "evaluate": "evaluation.runner",
    "get_task": "world.tasks.registry",
    "load": "agents.registry",
    "play": "evaluation.play",
    "register": "envs.registration",
    "start": "world.episode",
    "start_in_set": "evaluation.scene_sets",
    "step": "world.episode",
    "train": "training.run",
}
"""Maps each public name to the module that defines it, without the prefix `trilith.`."""
__all__ = [
    "Agent", "Placement", "Role", "Scene", "State", "Step", "Task",
    "evaluate", "get_task", "load", "play", "register", "start", "start_in_set", "step", "train",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "envs":
        return import_module("trilith.envs")
    if name not in _ROOMS:
        raise AttributeError(f"module 'trilith' has no attribute {name!r}")
    if name == "train":
        from trilith.agents.weights import learning, missing

        if not learning():
            raise ModuleNotFoundError(missing("training"))
    return getattr(import_module(f"trilith.{_ROOMS[name]}"), name)


# Names and titles of the tasks, repeated here because importing the tasks would be slow.
for _name, _title in {
    "silhouette": "Silhouette",
    "connecting": "Connecting",
    "covering": "Covering",
    "covering_hard": "CoveringHard",
}.items():
    _gymnasium.register(f"trilith/{_title}-v0", entry_point="trilith.envs.gymnasium:ConstructionEnv", kwargs={"task": _name})
    _gymnasium.register(f"trilith/{_title}Flat-v0", entry_point="trilith.envs.flat:flat_env", kwargs={"task": _name})
# Any task by its name, including a task of your own: gymnasium.make("trilith/Construction-v0", task="my_module:MyTask").
_gymnasium.register("trilith/Construction-v0", entry_point="trilith.envs.gymnasium:ConstructionEnv")
