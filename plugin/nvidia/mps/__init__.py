"""Sharing of GPUs by MPS: the control daemons, and what a container needs of them."""
