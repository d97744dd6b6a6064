"""Messages read as a kubelet reads them; bytes that are not a message get the error of its protobuf library.

Up to 1.33 a kubelet reads with code of the gogo compiler: text need not be UTF-8, and a known field of a wrong type is
an error. What gogo can read is first put in the usual form: known fields only, with U+FFFD in the place of what is no
text. Of numbers and lists of them this knows what plugins and monitoring agents send: single ones.

From 1.34 on the edges of what counts as protobuf are those of Python's library (unknown groups in more than a hundred
others, numbers of more than 64 bits in unknown fields, field 0 of a message without fields).

Source: k8s.io/kubelet v0.33.13, pkg/apis/deviceplugin/v1beta1/api.pb.go, ``Unmarshal``, ``skipApi``;
google.golang.org/protobuf v1.36.5, proto/decode.go, internal/impl/decode.go, which after "proto:" sets an ordinary or a
no-break space, by the program: here it is always the former. google.golang.org/grpc v1.72.1, server.go,
``processUnaryRPC``, for the methods of a server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from ..apis.grpcwire.messages import Code
from ..apis.grpcwire.served_call import CallError, UnaryMethod
from ..model.version import Difference, Version

__all__ = ["MOST_FIELDS", "READS_WITH_GOGO", "UnreadableMessageError", "read_message", "served_method"]

READS_WITH_GOGO: Final = Difference(
    "messages are read by code of the gogo compiler: text need not be UTF-8, a known field of a wrong type is an "
    "error, and errors have other texts",
    {"1.26": True, "1.34": False},
    "k8s.io/kubelet, pkg/apis/deviceplugin/v1beta1/api.pb.go, and those of podresources and pluginregistration "
    "(v0.33.13, v0.34.4)",
)

M = TypeVar("M", bound=Message)
Q = TypeVar("Q", bound=Message)

_NO_PROTOBUF: Final = "proto: cannot parse invalid wire-format data"
_NO_TEXT: Final = "string field contains invalid UTF-8"

MOST_FIELDS: Final = 50_000
"""Of an answer: a thousand mounts and devices have ten thousand."""
_VARINT: Final = 0
_BYTES: Final = 2
_END_GROUP: Final = 4
_NUMBERS: Final = (FieldDescriptor.TYPE_BOOL, FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64)
_CUSTOM_NAMES: Final = {"cdi_devices": "CDIDevices"}


class UnreadableMessageError(Exception):
    """Bytes that are not the message they should be; the words are Go's."""


def read_message(kind: type[M], content: bytes, version: Version, most_fields: int | None = MOST_FIELDS) -> M:
    """Read a message of a kind.

    Args:
        kind: the message's class.
        content: its bytes.
        version: the minor to read as.
        most_fields: how many it may have, those of messages in it included; None for any number.

    Raises:
        UnreadableMessageError: it is none, or has more fields.
    """
    descriptor = cast(Descriptor, kind.DESCRIPTOR)
    if most_fields is not None and len(content) > most_fields and _fields_left(descriptor, content, most_fields) < 0:
        raise UnreadableMessageError(f"it has more than {most_fields:,} fields, which simkubelet does not take")
    try:
        if READS_WITH_GOGO.at(version):
            content = _in_usual_form(descriptor, content)
        return kind.FromString(content)
    except _GogoError as error:
        raise UnreadableMessageError(str(error)) from None
    except DecodeError as error:
        raise UnreadableMessageError(_NO_TEXT if "UTF-8" in str(error) else _NO_PROTOBUF) from None


def _fields_left(kind: Descriptor, content: bytes, left: int) -> int:
    """How many fields there may be besides those of a message, less than none where it has too many.

    Reading four megabytes takes part of a second where they are texts, and many where they are a million fields.
    What is no message is for the reader to report.
    """
    reader, fields = _Reader(content), kind.fields_by_number
    with suppress(_GogoError):
        while reader.is_left and left >= 0:
            begin = reader.position
            tag = reader.varint()
            left -= 1
            field = fields.get(tag >> 3)
            if tag & 7 == _BYTES and field is not None and field.message_type is not None:
                left = _fields_left(field.message_type, reader.bytes(), left)
            else:
                reader.skip(begin, len(content))
    return left


def served_method(request: type[Q], method: Callable[[Q], Awaitable[Message]], version: Version) -> UnaryMethod:
    """A method with one message each way, served by a kubelet of some version."""
    return UnaryMethod(partial(_read, request, version), method)


def _read(request: type[Q], version: Version, content: bytes) -> Q:
    try:
        return read_message(request, content, version)
    except UnreadableMessageError as error:
        raise CallError(Code.INTERNAL, f"grpc: error unmarshalling request: {error}") from None


class _GogoError(Exception):
    """Bytes that are not the message they should be; the message is gogo's."""


def _in_usual_form(kind: Descriptor, content: bytes) -> bytes:
    """The same message as any protobuf reads it.

    Raises:
        GogoError: it is none to gogo.
    """
    reader, parts = _Reader(content), []
    while reader.is_left:
        begin = reader.position
        tag = reader.varint()
        number, wire_type = _int32(tag >> 3), tag & 7
        if wire_type == _END_GROUP:
            raise _GogoError(f"proto: {kind.name}: wiretype end group for non-group")
        if number <= 0:
            raise _GogoError(f"proto: {kind.name}: illegal tag {number} (wire type {tag})")
        field = kind.fields_by_number.get(number)
        if field is None:
            reader.skip(begin, len(content))
        else:
            parts.append(_field(field, wire_type, reader))
    return b"".join(parts)


def _field(field: FieldDescriptor, wire_type: int, reader: _Reader) -> bytes:
    expected = _VARINT if field.type in _NUMBERS else _BYTES
    if wire_type != expected:
        raise _GogoError(f"proto: wrong wireType = {wire_type} for field {_go_name(field.name)}")
    tag = _varint(field.number << 3 | expected)
    if expected == _VARINT:
        return tag + _varint(reader.varint())
    message = field.message_type
    if message is None:
        return tag + _counted(_text(reader.bytes()))
    if message.GetOptions().map_entry:
        return tag + _counted(_map_entry(reader))
    return tag + _counted(_in_usual_form(message, reader.bytes()))


def _map_entry(reader: _Reader) -> bytes:
    """Key and value, both text; one that is too long takes what follows its entry, up to the message's end."""
    begin = reader.position
    reader.bytes()
    end = reader.position
    reader.position = begin
    reader.varint()
    key = value = b""
    while reader.position < end:
        before = reader.position
        number = _int32(reader.varint() >> 3)
        if number == 1:
            key = _text(reader.bytes())
        elif number == 2:
            value = _text(reader.bytes())
        else:
            reader.skip(before, end)
    reader.position = end
    return _varint(1 << 3 | _BYTES) + _counted(key) + _varint(2 << 3 | _BYTES) + _counted(value)


class _Reader:
    """Reads the parts of one message, with gogo's errors."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.position = 0

    @property
    def is_left(self) -> bool:
        return self.position < len(self._content)

    def varint(self) -> int:
        """A number of 64 bits; what is beyond them is lost."""
        number = 0
        for shift in range(0, 70, 7):
            if not self.is_left:
                raise _GogoError("unexpected EOF")
            byte = self._content[self.position]
            self.position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number & 0xFFFF_FFFF_FFFF_FFFF
        raise _GogoError("proto: integer overflow")

    def bytes(self) -> bytes:
        length = self.varint()
        end = self.position + length
        if end >= 1 << 63:
            raise _GogoError("proto: negative length found during unmarshaling")
        if end > len(self._content):
            raise _GogoError("unexpected EOF")
        begin, self.position = self.position, end
        return self._content[begin:end]

    def skip(self, begin: int, end: int) -> None:
        """Pass over the unknown field that begins there and must not go beyond the end."""
        self.position, depth = begin, 0
        while True:
            if not self.is_left:
                raise _GogoError("unexpected EOF")
            depth += self._skip_one(depth)
            if self.position >= 1 << 63:
                raise _GogoError("proto: negative length found during unmarshaling")
            if depth == 0:
                break
        if self.position > end:
            raise _GogoError("unexpected EOF")

    def _skip_one(self, depth: int) -> int:
        """Pass over a tag and what belongs to it; how much deeper in groups that leads."""
        wire_type = self.varint() & 7
        match wire_type:
            case 0:
                self.varint()
            case 1:
                self.position += 8
            case 2:
                length = self.varint()
                self.position += length
            case 3:
                return 1
            case 4:
                if depth == 0:
                    raise _GogoError("proto: unexpected end of group")
                return -1
            case 5:
                self.position += 4
            case _:
                raise _GogoError(f"proto: illegal wireType {wire_type}")
        return 0


def _int32(number: int) -> int:
    number &= 0xFFFF_FFFF
    return number - (1 << 32) if number >> 31 else number


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _counted(content: bytes) -> bytes:
    return _varint(len(content)) + content


def _text(content: bytes) -> bytes:
    return content.decode(errors="replace").encode()


def _go_name(name: str) -> str:
    return _CUSTOM_NAMES.get(name) or "".join(part[:1].upper() + part[1:] for part in name.split("_"))
