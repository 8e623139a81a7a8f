"""Training: actors that play, a learner that learns from what they did, and the care of a run."""
