"""trilith: agents that learn to build with blocks.

Importing this registers the Gymnasium environments, and loads little else: not the engine, and nothing of learning.
"""

import gymnasium as _gymnasium

__version__ = "0.1.0"

# The names of `trilith.tasks.TASKS` and their titles, written out so that importing this stays quick.
for _name, _title in {
    "silhouette": "Silhouette",
    "connecting": "Connecting",
    "covering": "Covering",
    "covering_hard": "CoveringHard",
}.items():
    _gymnasium.register(f"trilith/{_title}-v0", entry_point="trilith.envs:ConstructionEnv", kwargs={"task": _name})
