"""Q-networks, actor-critic networks and the network of learned models, as torch modules. `inference` holds the forms that act without
torch."""
