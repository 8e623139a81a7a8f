"""Q-learning on the edges of a scene graph (paper, section D), and our faster variant."""
