"""Q-networks, actor-critic networks and the network of learned models, as torch modules. The package `inference` has the Q-networks that
act without torch."""
