"""Ways to look at what tilegen made: the report of a kernel, and the work that a tile program does."""
