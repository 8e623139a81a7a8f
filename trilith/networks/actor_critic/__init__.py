"""Actor-critic networks, one file per kind of input."""
