"""Stories on simulated nodes that join the cluster of an API server elsewhere."""
