"""Messages read as a kubelet reads them, with the words of its protobuf library for what is none.

Source: google.golang.org/protobuf v1.36.5, proto/decode.go, internal/impl/decode.go. After "proto:" it sets an ordinary
or a no-break space, by the program; here it is always the former.
"""

from __future__ import annotations

from typing import Final, TypeVar, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from ..model.version import Version
from .gogo_message import GogoError, in_usual_form

__all__ = ["UnreadableMessageError", "read_message"]

M = TypeVar("M", bound=Message)

_NO_PROTOBUF: Final = "proto: cannot parse invalid wire-format data"
_NO_TEXT: Final = "string field contains invalid UTF-8"


class UnreadableMessageError(Exception):
    """Bytes that are not the message they should be; the words are Go's."""


def read_message(kind: type[M], content: bytes, version: Version) -> M:
    """Read a message of a kind.

    Raises:
        UnreadableMessageError: it is none.
    """
    try:
        if version.reads_with_gogo:
            content = in_usual_form(cast(Descriptor, kind.DESCRIPTOR), content)
        return kind.FromString(content)
    except GogoError as error:
        raise UnreadableMessageError(str(error)) from None
    except DecodeError as error:
        raise UnreadableMessageError(_NO_TEXT if "UTF-8" in str(error) else _NO_PROTOBUF) from None
