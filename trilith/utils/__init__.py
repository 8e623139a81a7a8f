"""Tools that do not depend on blocks: files, processes, compiled loops, the console."""
