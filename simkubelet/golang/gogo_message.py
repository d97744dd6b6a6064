"""Messages as kubelets up to 1.33 read them, with code that the gogo compiler made.

To that code, text need not be UTF-8, and a known field of a wrong type is an error. What it can read is given on in the
usual form: known fields only, with U+FFFD in the place of what is no text. Of numbers and lists of them it knows what
plugins and monitoring agents send: single ones.

Source: k8s.io/kubelet v0.33.13, pkg/apis/deviceplugin/v1beta1/api.pb.go, ``Unmarshal``, ``skipApi``.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

__all__ = ["GogoError", "in_usual_form"]

_VARINT: Final = 0
_BYTES: Final = 2
_END_GROUP: Final = 4
_NUMBERS: Final = (FieldDescriptor.TYPE_BOOL, FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64)
_CUSTOM_NAMES: Final = {"cdi_devices": "CDIDevices"}


class GogoError(Exception):
    """Bytes that are not the message they should be; the message is gogo's."""


def in_usual_form(kind: Descriptor, content: bytes) -> bytes:
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
            raise GogoError(f"proto: {kind.name}: wiretype end group for non-group")
        if number <= 0:
            raise GogoError(f"proto: {kind.name}: illegal tag {number} (wire type {tag})")
        field = kind.fields_by_number.get(number)
        if field is None:
            reader.skip(begin, len(content))
        else:
            parts.append(_field(field, wire_type, reader))
    return b"".join(parts)


def _field(field: FieldDescriptor, wire_type: int, reader: _Reader) -> bytes:
    expected = _VARINT if field.type in _NUMBERS else _BYTES
    if wire_type != expected:
        raise GogoError(f"proto: wrong wireType = {wire_type} for field {_go_name(field.name)}")
    tag = _varint(field.number << 3 | expected)
    if expected == _VARINT:
        return tag + _varint(reader.varint())
    message = field.message_type
    if message is None:
        return tag + _counted(_text(reader.bytes()))
    if message.GetOptions().map_entry:
        return tag + _counted(_map_entry(reader))
    return tag + _counted(in_usual_form(message, reader.bytes()))


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
                raise GogoError("unexpected EOF")
            byte = self._content[self.position]
            self.position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number & 0xFFFF_FFFF_FFFF_FFFF
        raise GogoError("proto: integer overflow")

    def bytes(self) -> bytes:
        length = self.varint()
        end = self.position + length
        if end >= 1 << 63:
            raise GogoError("proto: negative length found during unmarshaling")
        if end > len(self._content):
            raise GogoError("unexpected EOF")
        begin, self.position = self.position, end
        return self._content[begin:end]

    def skip(self, begin: int, end: int) -> None:
        """Pass over the unknown field that begins there and must not go beyond the end."""
        self.position, depth = begin, 0
        while True:
            if not self.is_left:
                raise GogoError("unexpected EOF")
            depth += self._skip_one(depth)
            if self.position >= 1 << 63:
                raise GogoError("proto: negative length found during unmarshaling")
            if depth == 0:
                break
        if self.position > end:
            raise GogoError("unexpected EOF")

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
                    raise GogoError("proto: unexpected end of group")
                return -1
            case 5:
                self.position += 4
            case _:
                raise GogoError(f"proto: illegal wireType {wire_type}")
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
