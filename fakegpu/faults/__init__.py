"""Faults: what happens to a GPU, when, and for which calls of NVML."""
