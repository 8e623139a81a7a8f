"""Search algorithms: simulate actions before one is made. There is one file per algorithm; they share a tree that does not depend on
networks or physics."""
