"""Compares the expected with the actual state of a node, and decides the verdict."""
