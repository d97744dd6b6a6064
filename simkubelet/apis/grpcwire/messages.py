"""gRPC's messages on a stream, and how calls end.

Source: gRPC over HTTP/2 (PROTOCOL-HTTP2.md of gRPC's documentation): message prefix, trailers, percent encoding;
google.golang.org/grpc v1.72.1, codes/code_string.go, internal/status/status.go: errors in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final
from urllib.parse import quote, unquote

from ..integers import parse_int
from .frames import Headers

__all__ = [
    "ANSWER_BEGINS",
    "EMPTY_MESSAGE",
    "MOST_MESSAGE_BYTES",
    "Code",
    "MessageEnds",
    "error_in",
    "error_text",
    "framed",
    "message_in",
    "status_in",
    "taken",
    "timeout_s",
    "trailers",
]


class Code(IntEnum):
    """How a call ends."""

    OK = 0
    CANCELED = 1
    UNKNOWN = 2
    """What a Go server gives an error of its own."""
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


EMPTY_MESSAGE: Final = b"\0\0\0\0\0"
MOST_MESSAGE_BYTES: Final = 4 << 20
"""The longest message that Go's clients and servers take where nobody says otherwise."""
ANSWER_BEGINS: Final[Headers] = [(b":status", b"200"), (b"content-type", b"application/grpc")]
_PREFIX_BYTES: Final = len(EMPTY_MESSAGE)
_TIMEOUT_UNITS_S: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_SHORTEST_TIMEOUT: Final = 2
_LONGEST_TIMEOUT: Final = 9
_CODES: Final = 1 << 32
_PRINTABLE: Final = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


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


def timeout_s(value: bytes | None) -> float | None:
    """The value of the header ``grpc-timeout``; None where there is no limit.

    Raises:
        ValueError: It cannot be read; the message is that of a server in Go.

    Source: google.golang.org/grpc v1.72.1, internal/transport/http_util.go, ``decodeTimeout``.
    """
    if value is None:
        return None
    text = value.decode(errors="replace")
    if len(value) < _SHORTEST_TIMEOUT:
        raise ValueError(f'transport: timeout string is too short: "{text}"')
    if len(value) > _LONGEST_TIMEOUT:
        raise ValueError(f'transport: timeout string is too long: "{text}"')
    unit_s = _TIMEOUT_UNITS_S.get(value[-1:])
    if unit_s is None:
        raise ValueError(f'transport: timeout unit is not recognized: "{text}"')
    return parse_int(text[:-1]) * unit_s


def trailers(code: int, text: str = "") -> Headers:
    """How a call ends."""
    ends = [(b"grpc-status", b"%d" % code)]
    return [*ends, (b"grpc-message", quote(text, safe=_PRINTABLE).encode())] if text else ends


def error_in(headers: Headers) -> str | None:
    """The error with which a call ends as Go prints it, empty for status OK; None for headers that are not trailers."""
    values = dict(headers)
    if b"grpc-status" not in values:
        return None
    code, text = status_in(values)
    return "" if code == Code.OK else error_text(code, text)


def status_in(trailers: Mapping[bytes, bytes]) -> tuple[int, str]:
    """Code and text with which a call ends; Unknown where the server says nothing of it."""
    status = trailers.get(b"grpc-status", b"%d" % Code.UNKNOWN).decode(errors="replace")
    try:
        code = parse_int(status, bits=32) % _CODES
    except ValueError as error:
        return Code.INTERNAL, f"transport: malformed grpc-status: {error}"
    return code, unquote(trailers.get(b"grpc-message", b"").decode(errors="replace"))


def error_text(code: int, text: str) -> str:
    """An error as Go prints it."""
    name = "".join(map(str.capitalize, Code(code).name.split("_"))) if code in list(Code) else f"Code({code})"
    return f"rpc error: code = {name} desc = {text}"
