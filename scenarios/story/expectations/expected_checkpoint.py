"""What a story expects of a kubelet's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, StrictStr, Tag

from ..part import FilledPart, Name, ResourceName
from .expected_devices import MAPPING, WORD, Devices, DevicesOrAbsent, word_or_mapping

PodEntries = Annotated[
    Annotated[Literal["absent"], Tag(WORD)]
    | Annotated[Mapping[StrictStr, Mapping[ResourceName, Devices]], Tag(MAPPING)],
    Discriminator(
        word_or_mapping,
        custom_error_type="entries",
        custom_error_message="expected containers and their devices by resource, or 'absent'",
    ),
]


class CheckpointContent(FilledPart):
    """What a checkpoint says.

    Attributes:
        pods: Pod -> container -> resource -> the devices that it was given; ``absent`` where there is no entry.
        registered: Resource -> its healthy devices; ``absent`` where it is not named.
    """

    pods: Mapping[Name, PodEntries] = Field(default_factory=dict)
    registered: Mapping[ResourceName, DevicesOrAbsent] = Field(default_factory=dict)


ExpectedCheckpoint = Annotated[
    Annotated[Literal["absent", "corrupt"], Tag(WORD)] | Annotated[CheckpointContent, Tag(MAPPING)],
    Discriminator(
        word_or_mapping,
        custom_error_type="checkpoint",
        custom_error_message="expected 'pods' and 'registered', or 'absent', or 'corrupt'",
    ),
]
