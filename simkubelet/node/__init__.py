"""The node's own status."""
