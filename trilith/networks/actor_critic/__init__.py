"""Networks of actors and critics."""
