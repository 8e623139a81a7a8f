"""Compiled functions for geometry on arrays, with their constants: rectangles, drop, statics, rigid groups, chains, coverage."""
