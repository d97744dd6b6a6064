"""gRPC servers of a kubelet: what cannot be read is refused in the words of its protobuf library.

What its library takes for protobuf at the edges is Python's (unknown groups in more than a hundred others, numbers of
more than 64 bits in unknown fields, field 0 of a message without fields).

Source: google.golang.org/grpc v1.72.1, server.go, ``processUnaryRPC``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from google.protobuf.message import Message

from ..apis.grpcwire.messages import Code
from ..apis.grpcwire.served_call import CallError, UnaryMethod
from ..model.version import Version
from .message import UnreadableMessageError, read_message

__all__ = ["served_method"]

Q = TypeVar("Q", bound=Message)


def served_method(request: type[Q], method: Callable[[Q], Awaitable[Message]], version: Version) -> UnaryMethod:
    """A method with one message each way, served by a kubelet of some version."""
    return UnaryMethod(partial(_read, request, version), method)


def _read(request: type[Q], version: Version, content: bytes) -> Q:
    try:
        return read_message(request, content, version)
    except UnreadableMessageError as error:
        raise CallError(Code.INTERNAL, f"grpc: error unmarshalling request: {error}") from None
