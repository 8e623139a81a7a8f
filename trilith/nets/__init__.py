"""Networks that give every action of a scene a value. With the learning parts of `agents`, the only rooms that import torch."""
