"""Geometry on arrays, compiled, with its constants: rectangles, drop, statics, rigid groups, chains, coverage."""
