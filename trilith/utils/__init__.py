"""What knows nothing of blocks: files, processes, compiled loops, the console."""
