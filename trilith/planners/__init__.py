"""Builders that learn nothing: `ScriptedBuilder` follows rules of thumb, `Planner` searches with the simulator.

Each task has its own functions for both, registered by the task's name. Importing this package registers those of the paper's tasks.
"""

from trilith.planners import connecting, covering, covering_hard, silhouette  # noqa: F401
from trilith.planners.planner import Planner
from trilith.planners.registry import plans, scripts
from trilith.planners.scripted import ScriptedBuilder

__all__ = ["Planner", "ScriptedBuilder", "plans", "scripts"]
