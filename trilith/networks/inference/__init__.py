"""The same networks as compiled forward passes, for acting without torch."""
