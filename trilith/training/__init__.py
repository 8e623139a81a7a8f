"""Training runs: actors that play episodes, the loop that passes these to a learner, logs and checkpoints."""
