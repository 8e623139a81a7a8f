"""Tree search. The tree knows no network and no physics; the simulator is the world that is searched by default."""
