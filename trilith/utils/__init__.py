"""Tools that know nothing about blocks: files, configs, worker processes, compiled loops, the console."""
