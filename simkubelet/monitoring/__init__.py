"""What monitoring agents ask a kubelet: PodResources, /healthz and /metrics."""
