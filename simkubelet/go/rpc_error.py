"""gRPC calls to plugins, and their errors in the words of Go, as they reach pod statuses through the kubelet."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import grpc

from .message import UnreadableMessageError

__all__ = ["ConnectionClosedError", "UnreadableAnswerError", "answer_to", "go_text"]

T = TypeVar("T")

_NOT_CONNECTED: Final = re.compile(r"unix:(.+?): .*error: ([^:]+)$")
_TOO_LARGE: Final = re.compile(r"Received message larger than max \((\d+ vs\. \d+)\)")


class ConnectionClosedError(Exception):
    """The kubelet closed the connection to a plugin while a call was under way or before it began."""

    def __init__(self) -> None:
        super().__init__("rpc error: code = Canceled desc = grpc: the client connection is closing")


class UnreadableAnswerError(Exception):
    """A plugin answered with bytes that are not the message they should be."""

    def __init__(self, reason: UnreadableMessageError) -> None:
        super().__init__(f"rpc error: code = Internal desc = grpc: failed to unmarshal the received message: {reason}")


async def answer_to(call: Callable[[], Awaitable[T]]) -> T:
    """Make a call and await its answer.

    Raises:
        ConnectionClosedError: the channel was closed; gRPC tells so by cancelling whoever waits, which would look as
            if the task itself had been cancelled.
        grpc.aio.AioRpcError: the plugin refused or died.
    """
    try:
        return await call()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise ConnectionClosedError from None
    except grpc.aio.UsageError:
        raise ConnectionClosedError from None


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
    match error.code():
        case grpc.StatusCode.UNAVAILABLE if "Socket closed" in details:
            return "error reading from server: EOF"
        case grpc.StatusCode.UNAVAILABLE if found := _NOT_CONNECTED.search(details):
            reason = f"dial unix {found[1]}: connect: {found[2].lower()}"
            return f'connection error: desc = "transport: Error while dialing: {reason}"'
        case grpc.StatusCode.DEADLINE_EXCEEDED if details == "Deadline Exceeded":
            return "context deadline exceeded"
        case grpc.StatusCode.RESOURCE_EXHAUSTED if found := _TOO_LARGE.search(details):
            return f"grpc: received message larger than max ({found[1]})"
    return details
