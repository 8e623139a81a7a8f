"""Builders that learn nothing: `ScriptedBuilder` follows rules of thumb, `Planner` searches with the simulator."""

from trilith.builders.planner import Planner
from trilith.builders.scripted import ScriptedBuilder

__all__ = ["Planner", "ScriptedBuilder"]
