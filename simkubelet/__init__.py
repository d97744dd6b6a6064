"""A simulated kubelet: what device plugins, pods and node owners can observe of a real one, without a cluster."""

__all__: list[str] = []
