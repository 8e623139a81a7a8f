"""Adapters of the world to the interfaces of other libraries."""
