"""Compiled loops on the CPU, each beside its form in tensors."""
