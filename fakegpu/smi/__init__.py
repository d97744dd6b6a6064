"""A small nvidia-smi, for nodes that have none: the views people and scripts use most, in the words of the real one.

It reads through NVML alone (nvidia-ml-py), so it shows fake and real GPUs alike. A view is a module; the real
program's version 535 is the model, and a test compares the two line by line.
"""
