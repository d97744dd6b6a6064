"""How a story says what plugins add to a container: device files and mounts, by their paths in the container."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Discriminator, StrictBool, StrictStr, Tag

from ..part import FilledPart
from .expected_devices import MAPPING, WORD, word_or_mapping


class ExpectedMount(FilledPart):
    """A mount of a container; what is left out may be anything."""

    host_path: StrictStr | None = None
    read_only: StrictBool | None = None


class ExpectedDeviceNode(FilledPart):
    """A device file of a container, the same way; `permissions` are the letters that its plugin gave."""

    host_path: StrictStr | None = None
    permissions: StrictStr | None = None


Mounts = Mapping[
    StrictStr,
    Annotated[
        Annotated[StrictStr, Tag(WORD)] | Annotated[ExpectedMount, Tag(MAPPING)],
        Discriminator(
            word_or_mapping,
            custom_error_type="mount",
            custom_error_message="expected the path on the node, or a mapping with 'hostPath' and 'readOnly'",
        ),
    ],
]
"""Path in the container -> path on the node, or more about the mount."""

DeviceNodes = Mapping[
    StrictStr,
    Annotated[
        Annotated[StrictStr, Tag(WORD)] | Annotated[ExpectedDeviceNode, Tag(MAPPING)],
        Discriminator(
            word_or_mapping,
            custom_error_type="device",
            custom_error_message="expected the path on the node, or a mapping with 'hostPath' and 'permissions'",
        ),
    ],
]
"""Path in the container -> path on the node, or more about the device file."""
