"""What monitoring agents ask a kubelet: PodResources, /healthz and /metrics."""

from ..apis import _quiet_grpc as _quiet_grpc
