"""Search before acting: one file per algorithm, on a shared tree that does not depend on networks or physics."""
