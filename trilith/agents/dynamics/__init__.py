"""A learned model of the world: what a placement leads to, as a network predicts it, and the world that it is to a search."""
