"""gRPC errors in the words of Go, as they reach pod statuses and plugins through the kubelet."""

from __future__ import annotations

from typing import Final

import grpc

__all__ = ["go_text"]

_GO_NAMES: Final = {
    grpc.StatusCode.CANCELLED: "Canceled",
    grpc.StatusCode.UNKNOWN: "Unknown",
    grpc.StatusCode.INVALID_ARGUMENT: "InvalidArgument",
    grpc.StatusCode.DEADLINE_EXCEEDED: "DeadlineExceeded",
    grpc.StatusCode.NOT_FOUND: "NotFound",
    grpc.StatusCode.ALREADY_EXISTS: "AlreadyExists",
    grpc.StatusCode.PERMISSION_DENIED: "PermissionDenied",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "ResourceExhausted",
    grpc.StatusCode.FAILED_PRECONDITION: "FailedPrecondition",
    grpc.StatusCode.ABORTED: "Aborted",
    grpc.StatusCode.OUT_OF_RANGE: "OutOfRange",
    grpc.StatusCode.UNIMPLEMENTED: "Unimplemented",
    grpc.StatusCode.INTERNAL: "Internal",
    grpc.StatusCode.UNAVAILABLE: "Unavailable",
    grpc.StatusCode.DATA_LOSS: "DataLoss",
    grpc.StatusCode.UNAUTHENTICATED: "Unauthenticated",
}


def go_text(error: BaseException) -> str:
    """The text of an error as Go's ``%v`` prints it; an RPC error becomes ``rpc error: code = … desc = …``."""
    if isinstance(error, grpc.aio.AioRpcError):
        return f"rpc error: code = {_GO_NAMES[error.code()]} desc = {_description(error)}"
    return str(error)


def _description(error: grpc.aio.AioRpcError) -> str:
    details = error.details() or ""
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and details == "Deadline Exceeded":
        return "context deadline exceeded"
    return details
