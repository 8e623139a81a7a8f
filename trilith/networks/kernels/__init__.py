"""Compiled loops for the CPU, each next to the same function in tensor operations."""
