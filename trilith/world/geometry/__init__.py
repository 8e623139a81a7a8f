"""Geometry on arrays, one compiled implementation each, with its constants: rectangles, drop, statics, rigid groups, chains, coverage."""
