"""Q-networks, actor-critic networks and the networks of learned models, as torch modules. The package `inference` has two of the Q-networks
without torch, for acting: `objects` and `pixel-attention`."""
