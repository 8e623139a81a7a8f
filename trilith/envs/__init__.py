"""Adapters of the world to other people's interfaces."""
