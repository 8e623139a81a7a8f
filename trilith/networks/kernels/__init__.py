"""Compiled loops for the CPU. For other devices, the functions that learning needs also exist as tensor operations."""
