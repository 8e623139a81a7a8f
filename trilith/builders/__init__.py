"""Builders that learn nothing: `ScriptedBuilder` follows rules of thumb, `Planner` searches with the simulator.

Each task has functions of its own for both, which register by its name; importing this room brings those of the paper's tasks.
"""

import trilith.builders.connecting
import trilith.builders.covering
import trilith.builders.covering_hard
import trilith.builders.silhouette  # noqa: F401
from trilith.builders.planner import Planner
from trilith.builders.registry import plans, scripts
from trilith.builders.scripted import ScriptedBuilder

__all__ = ["Planner", "ScriptedBuilder", "plans", "scripts"]
