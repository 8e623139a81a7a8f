"""A learned model of the world: a network predicts the result of a placement, and a search can use it in place of the simulator."""
