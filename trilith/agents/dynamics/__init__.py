"""A learned transition model: a network predicts the result of a placement, so that a search can use it instead of the simulator."""
