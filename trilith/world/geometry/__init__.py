"""Geometry of rectangles on arrays, one implementation of each function."""
