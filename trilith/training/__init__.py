"""Training: actors that play, a learner that learns from their episodes, and the loop, logs and checkpoints of a run."""
