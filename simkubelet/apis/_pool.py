"""Classes of our own messages, in a descriptor pool of our own.

Protobuf's default pool takes one definition of a message name per process; a user who tests a plugin has stubs of
``v1beta1.Device`` of their own in it. Its builder of classes loads the implementation in Python even where that in C is
used, a tenth of a plugin's start.
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message

try:
    from google._upb._message import DescriptorPool, MessageMeta
except ImportError:
    # Where there is no build of protobuf's C code.
    from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[assignment]
    from google.protobuf.internal.python_message import (  # type: ignore[assignment]
        GeneratedProtocolMessageType as MessageMeta,
    )

_POOL = DescriptorPool()


def messages_of(file: bytes) -> dict[str, Any]:
    """The classes of the messages of a serialized ``FileDescriptorProto``, by name, and its ``DESCRIPTOR``."""
    descriptor = _POOL.AddSerializedFile(file)
    return {"DESCRIPTOR": descriptor, **_classes(descriptor.message_types_by_name)}


def _classes(descriptors: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: MessageMeta(
            name, (Message,), {**_classes(one.nested_types_by_name), "DESCRIPTOR": one, "__module__": __package__}
        )
        for name, one in descriptors.items()
    }
