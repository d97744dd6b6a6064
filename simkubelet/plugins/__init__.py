"""The kubelet's side of its plugins: how they are found, registered, listened to and lost."""

from ..apis import _quiet_grpc as _quiet_grpc
