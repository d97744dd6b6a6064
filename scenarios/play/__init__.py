"""Plays stories: one after the other or side by side, on the simulator or on a cluster, and reports."""
