"""Observations of a scene: objects, a graph, an image, or an image per object."""
