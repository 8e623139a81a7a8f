"""Agents that learn."""
