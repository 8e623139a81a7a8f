"""Networks that give every action of a scene a value. With `agents` and `training`, the only packages that import torch."""
