"""Messages read as a kubelet reads them, with the texts of its protobuf library for bytes that are none.

What its library takes for protobuf at the edges is Python's (unknown groups in more than a hundred others, numbers of
more than 64 bits in unknown fields, field 0 of a message without fields).

Source: google.golang.org/protobuf v1.36.5, proto/decode.go, internal/impl/decode.go. After "proto:" it sets an ordinary
or a no-break space, by the program; here it is always the former. google.golang.org/grpc v1.72.1, server.go,
``processUnaryRPC``, for the methods of a server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from ..apis.grpcwire.messages import Code
from ..apis.grpcwire.served_call import CallError, UnaryMethod
from ..model.version import Difference, Version
from .gogo_message import GogoError, in_usual_form

__all__ = ["READS_WITH_GOGO", "UnreadableMessageError", "read_message", "served_method"]

READS_WITH_GOGO: Final = Difference(
    "messages are read by code of the gogo compiler: text need not be UTF-8, a known field of a wrong type is an "
    "error, and errors have other texts",
    {"1.26": True, "1.34": False},
    "k8s.io/kubelet, pkg/apis/deviceplugin/v1beta1/api.pb.go, and those of podresources and pluginregistration "
    "(v0.33.13, v0.34.4)",
)

M = TypeVar("M", bound=Message)

_NO_PROTOBUF: Final = "proto: cannot parse invalid wire-format data"
_NO_TEXT: Final = "string field contains invalid UTF-8"
Q = TypeVar("Q", bound=Message)


class UnreadableMessageError(Exception):
    """Bytes that are not the message they should be; the words are Go's."""


def read_message(kind: type[M], content: bytes, version: Version) -> M:
    """Read a message of a kind.

    Raises:
        UnreadableMessageError: it is none.
    """
    try:
        if READS_WITH_GOGO.at(version):
            content = in_usual_form(cast(Descriptor, kind.DESCRIPTOR), content)
        return kind.FromString(content)
    except GogoError as error:
        raise UnreadableMessageError(str(error)) from None
    except DecodeError as error:
        raise UnreadableMessageError(_NO_TEXT if "UTF-8" in str(error) else _NO_PROTOBUF) from None


def served_method(request: type[Q], method: Callable[[Q], Awaitable[Message]], version: Version) -> UnaryMethod:
    """A method with one message each way, served by a kubelet of some version."""
    return UnaryMethod(partial(_read, request, version), method)


def _read(request: type[Q], version: Version, content: bytes) -> Q:
    try:
        return read_message(request, content, version)
    except UnreadableMessageError as error:
        raise CallError(Code.INTERNAL, f"grpc: error unmarshalling request: {error}") from None
