"""Layers that several networks share: relational attention over objects, and a CNN that encodes the image of one object."""
