"""Agents that do not learn: `ScriptedBuilder` follows rules of thumb, `Planner` searches with the simulator.

Each task has its own script and its own planning function, registered by the task's name. Importing this package registers the
functions of the paper's tasks.
"""

from trilith.planners import connecting, covering, covering_hard, silhouette  # noqa: F401
from trilith.planners.planner import Planner
from trilith.planners.registry import plans, scripts
from trilith.planners.scripted import ScriptedBuilder

__all__ = ["Planner", "ScriptedBuilder", "plans", "scripts"]
