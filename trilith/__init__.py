"""trilith: agents that learn to build with blocks.

Importing this registers the Gymnasium environments, and loads little else: not the engine, and nothing of learning.
"""

import gymnasium as _gymnasium

from trilith.tasks import TASKS as _TASKS

__version__ = "0.1.0"

for _task in _TASKS.values():
    _gymnasium.register(f"trilith/{_task.title}-v0", entry_point="trilith.envs:ConstructionEnv", kwargs={"task": _task.name})
