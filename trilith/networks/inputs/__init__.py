"""The inputs of networks: the columns that they see of objects, pairs, placements and images."""
