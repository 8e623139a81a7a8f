"""Q-networks and actor-critic networks. The networks that learn are torch modules; `inference` needs no torch."""
