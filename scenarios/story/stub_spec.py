"""What the built-in plugin `stub` of a story serves: its devices, and how it behaves towards the kubelet."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StrictBool, StrictStr, Tag, model_validator
from pydantic_core import PydanticCustomError

from .part import Count, NodePath, Part, ResourceName


class Registers(StrEnum):
    """When the stub registers without a step."""

    UNTIL_CONNECTED = "until-connected"
    """At its start and for each new kubelet; again after a refusal, and when its stream is lost."""
    ALWAYS = "always"
    """At its start, and again for each new kubelet."""
    ONCE = "once"
    """At its start only."""
    NEVER = "never"
    FOUND = "found"
    """Its socket is in ``plugins_registry``, where the kubelet finds it and asks."""
    FOUND_AGAIN = "found-again"
    """The same; it makes its socket again when the kubelet has refused it."""

    @property
    def is_found(self) -> bool:
        """Whether the kubelet finds the socket."""
        return self in (Registers.FOUND, Registers.FOUND_AGAIN)


class OnLostStream(StrEnum):
    """What the stub does when a stream of its lists ends."""

    IGNORE = "ignore"
    EXIT = "exit"
    """It exits with status 1 and is started again."""
    HANG = "hang"
    """It serves on and never again notices a kubelet."""


class Looks(StrEnum):
    """When the stub looks for the files of its devices."""

    ALWAYS = "always"
    AT_START = "at-start"


class StubDevice(Part):
    """A device that the stub lists; `numa` is empty where it does not report NUMA nodes.

    Attributes:
        id: The id that the kubelet sees.
        health: Healthy where it is left out.
        numa: The NUMA nodes that it reports.
    """

    id: StrictStr
    health: Literal["Healthy", "Unhealthy"] = "Healthy"
    numa: tuple[Count, ...] = ()


def _device_tag(value: object) -> str | None:
    if isinstance(value, str):
        return "(id)"
    return "(device)" if isinstance(value, Mapping | StubDevice) else None


Device = Annotated[
    Annotated[StrictStr, Tag("(id)")] | Annotated[StubDevice, Tag("(device)")],
    Discriminator(
        _device_tag,
        custom_error_type="device",
        custom_error_message="expected a device: its id, or a mapping with 'id'",
    ),
]
"""A device by its id where it is healthy and has no NUMA node, else in full."""


def devices_in_full(devices: tuple[Device, ...]) -> list[dict[str, Any]]:
    """Devices as the stub takes them."""
    whole = [StubDevice(id=device) if isinstance(device, str) else device for device in devices]
    return [device.model_dump(mode="json") for device in whole]


class Serves(Part):
    """What a plugin with ``builtin: stub`` serves.

    Attributes:
        resource: The resource, such as `example.com/gpu`.
        socket: The name of its socket in the plugins' folder; the plugin's name with ``.sock`` where it is left out.
        devices: The first list.
        registers: ``found``: its socket is in ``plugins_registry``, where the kubelet finds it and asks.
        pre_start: Whether it asks for PreStartContainer.
        preferred_allocation: Whether it offers GetPreferredAllocation.
        on_lost_stream: What it does when a stream of lists ends: go on, exit with status 1 to be started again, or
            serve on and never again notice a kubelet.
        watches: The folder on the node where it waits for a new ``kubelet.sock``; the kubelet's by default.
        files: Device -> the file on the node that it is.
        looks: When it looks for these files: a device is unhealthy while its file is missing, or it is not listed
            where its file is missing at the start.
    """

    resource: ResourceName = "example.com/device"
    socket: Annotated[StrictStr, Field(pattern=r"^[-A-Za-z0-9_.]+$")] | None = None
    devices: tuple[Device, ...] = ()
    registers: Registers = Registers.ALWAYS
    pre_start: StrictBool = False
    preferred_allocation: StrictBool = False
    on_lost_stream: OnLostStream = OnLostStream.IGNORE
    watches: NodePath | None = None
    files: Mapping[StrictStr, NodePath] = Field(default_factory=dict)
    looks: Looks = Looks.ALWAYS

    @model_validator(mode="after")
    def _files_of_devices(self) -> Serves:
        known = {device["id"] for device in devices_in_full(self.devices)}
        if unknown := sorted(self.files.keys() - known):
            raise PydanticCustomError("files", f"'files' names '{unknown[0]}', which is none of the 'devices'")
        return self
