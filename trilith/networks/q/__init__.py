"""Q-networks: networks that give every action of a scene a value."""
