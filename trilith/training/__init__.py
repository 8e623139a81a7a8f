"""Training runs: actors that play episodes, the loop that passes the episodes to a learner, logs and checkpoints."""
