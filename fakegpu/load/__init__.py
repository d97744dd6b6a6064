"""Load: how busy a GPU is, over time."""
