"""Compiled loops for the CPU. Functions that learn also have a form in tensor operations, for other devices."""
