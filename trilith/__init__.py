"""trilith: agents that learn to build with blocks."""

__version__ = "0.1.0"
