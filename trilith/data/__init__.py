"""Recording episodes, and exporting them as Minari datasets."""
