"""The inputs of networks: feature columns of objects, pairs of objects, placements and images."""
