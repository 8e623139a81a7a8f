"""Search before acting: one file per algorithm, on a shared tree that knows no network and no physics."""
