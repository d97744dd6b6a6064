"""The container runtime: containers as book-keeping, or as processes."""
