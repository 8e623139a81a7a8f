"""Search algorithms, which simulate actions before the agent takes one. There is one file per algorithm. All share the tree in `tree.py`,
which does not depend on networks or physics."""
