"""What several parts of the package need of Python, the host and the package itself; nothing here is public."""
