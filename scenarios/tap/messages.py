"""gRPC's messages, and those of the kubelet's device plugin API as far as the tap reads or changes them.

Source: gRPC over HTTP/2 (PROTOCOL-HTTP2.md of gRPC's documentation): message prefix, trailers, percent encoding;
google.golang.org/grpc v1.72.1, codes/code_string.go, internal/status/status.go: errors in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final
from urllib.parse import quote, unquote

from google.protobuf.message import DecodeError

from simkubelet.apis import deviceplugin as api

from .answer import Rpc
from .http2 import Headers

PATHS: Final = {
    f"/v1beta1.{'Registration' if rpc is Rpc.REGISTER else 'DevicePlugin'}/{rpc}".encode(): rpc for rpc in Rpc
}
OK: Final = 0
UNKNOWN: Final = 2
"""The code that a Go server gives an error of its own."""
_CODES: Final = (
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
)
EMPTY_MESSAGE: Final = b"\0\0\0\0\0"
ANSWER_BEGINS: Final[Headers] = [(b":status", b"200"), (b"content-type", b"application/grpc")]
_PREFIX_BYTES: Final = len(EMPTY_MESSAGE)
_PRINTABLE: Final = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_FILLING: Final = b"\x7a"
"""Tag of field 15 with a length, which no message of the API has."""
_FILLING_BYTES: Final = 6


def framed(message: bytes) -> bytes:
    """A message as it goes over a stream."""
    return b"\0" + len(message).to_bytes(4) + message


def message_in(received: bytes | bytearray) -> bytes:
    """The message of a whole one with its prefix."""
    return bytes(received[_PREFIX_BYTES:])


def taken(received: bytearray) -> Iterator[bytes]:
    """Take the complete messages from what a stream has brought, each with its prefix."""
    while len(received) >= _PREFIX_BYTES:
        length = _PREFIX_BYTES + int.from_bytes(received[1:_PREFIX_BYTES])
        if len(received) < length:
            return
        yield bytes(received[:length])
        del received[:length]


class MessageEnds:
    """Where messages end in what a stream brings, however it is cut."""

    def __init__(self) -> None:
        self._prefix = bytearray()
        self._left = 0

    @property
    def is_between(self) -> bool:
        """Whether no message has begun that has not ended."""
        return not self._left and not self._prefix

    def last_in(self, data: bytes) -> int | None:
        """Take what has come next; how much of it reaches to the last end of a message, None where none ends."""
        at, last = 0, None
        while at < len(data):
            if self._left:
                count = min(self._left, len(data) - at)
                self._left -= count
            else:
                count = min(_PREFIX_BYTES - len(self._prefix), len(data) - at)
                self._prefix += data[at : at + count]
                if len(self._prefix) == _PREFIX_BYTES:
                    self._left = int.from_bytes(self._prefix[1:])
                    self._prefix.clear()
            at += count
            if self.is_between:
                last = at
        return last


def trailers(code: int, text: str = "") -> Headers:
    """How a call ends."""
    ends = [(b"grpc-status", b"%d" % code)]
    return [*ends, (b"grpc-message", quote(text, safe=_PRINTABLE).encode())] if text else ends


def error_in(headers: Headers) -> str | None:
    """The error with which a call ends as Go prints it, empty where it ends well; None where these are no trailers."""
    values = dict(headers)
    if b"grpc-status" not in values:
        return None
    code = int(values[b"grpc-status"])
    name = _CODES[code] if code < len(_CODES) else f"Code({code})"
    text = unquote(values.get(b"grpc-message", b"").decode())
    return "" if code == OK else f"rpc error: code = {name} desc = {text}"


def devices_of(rpc: Rpc, request: bytes) -> list[str]:
    """The device ids that a call names; of what cannot be read, none."""
    asked: Any
    try:
        match rpc:
            case Rpc.ALLOCATE:
                asked = api.AllocateRequest.FromString(request)
                return [device for one in asked.container_requests for device in one.devices_ids]
            case Rpc.GET_PREFERRED_ALLOCATION:
                asked = api.PreferredAllocationRequest.FromString(request)
                return [device for one in asked.container_requests for device in one.available_deviceIDs]
            case Rpc.PRE_START_CONTAINER:
                return list(api.PreStartContainerRequest.FromString(request).devices_ids)
            case _:
                return []
    except DecodeError:
        return []


def registration(request: bytes) -> tuple[str, str]:
    """Resource and endpoint of a Register call; of what cannot be read, empty ones."""
    try:
        asked = api.RegisterRequest.FromString(request)
    except DecodeError:
        return "", ""
    return asked.resource_name, asked.endpoint


def device_list(devices: Sequence[dict[str, Any]]) -> bytes:
    """A list of devices, each with ``id``, ``health`` and ``numa``."""
    listed = api.ListAndWatchResponse()
    for one in devices:
        nodes = [api.NUMANode(ID=node) for node in one["numa"]]
        topology = api.TopologyInfo(nodes=nodes) if nodes else None
        listed.devices.add(ID=one["id"], health=one["health"], topology=topology)
    return listed.SerializeToString()


def in_parts(message: bytes, count: int) -> list[bytes]:
    """A list of devices as several, as even as can be, in their order; what cannot be read stays whole."""
    try:
        devices = list(api.ListAndWatchResponse.FromString(message).devices)
    except DecodeError:
        return [message]
    size, longer = divmod(len(devices), count)
    begins = [part * size + min(part, longer) for part in range(count + 1)]
    return [api.ListAndWatchResponse(devices=devices[begin:end]).SerializeToString() for begin, end in pairwise(begins)]


def filled(message: bytes, size: int) -> bytes:
    """A message with a field that nobody knows, so that it has at least so many bytes."""
    count = size - len(message) - _FILLING_BYTES
    if count < 0:
        return message
    length = bytes((count >> shift) & 0x7F | 0x80 for shift in (0, 7, 14, 21)) + bytes((count >> 28,))
    return message + _FILLING + length + bytes(count)
