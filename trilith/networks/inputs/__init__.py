"""Raw inputs of the networks."""
