"""Layers that several networks share: relational attention, and the CNN of one object."""
