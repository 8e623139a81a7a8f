"""Episodes as data: recording them, and Minari."""
