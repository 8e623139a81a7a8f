"""Tree search: knows no network and no physics."""
