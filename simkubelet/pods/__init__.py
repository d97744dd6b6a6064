"""Pods on their node: where they come from, how they live, what is published of them."""
