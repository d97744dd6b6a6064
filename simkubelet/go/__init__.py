"""What Go's libraries say and how they read: texts, messages, servers, errors."""

from ..apis import _quiet_grpc as _quiet_grpc
