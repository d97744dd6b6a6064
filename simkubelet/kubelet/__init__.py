"""The kubelet: what puts its parts together, one instance for each start of its process."""
