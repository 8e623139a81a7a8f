"""Networks as compiled forward passes, for acting without torch. They compute the same functions as the torch modules."""
