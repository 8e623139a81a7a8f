"""Layers that several networks share: relational attention over objects, graph network layers, and a CNN that encodes the image of one
object."""
