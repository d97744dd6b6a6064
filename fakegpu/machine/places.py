"""Where each GPU of a machine sits: servers one after the other, PCI addresses, and what its NVLinks end in."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..profiles.profile_model import Profile, Slot
from ..state import layout

NVIDIA_VENDOR: Final = 0x10DE
_FABRIC_COMPLETED: Final = 3
_FABRIC_HEALTHY: Final = 1
_FABRIC_FULL_BANDWIDTH: Final = 2


@dataclass(frozen=True, slots=True)
class Place:
    """Where one GPU sits.

    Attributes:
        profile: model and server.
        index: NVML index.
        server: number of the server in the machine.
        domain: first PCI domain of this server.
        first_domain: first PCI domain of the group's first server.
        number: of the slot in the server.
        taken: slots of the server that hold a GPU; they are the first ones.
    """

    profile: Profile
    index: int
    server: int
    domain: int
    first_domain: int
    number: int
    taken: int

    @property
    def slot(self) -> Slot:
        return self.profile.topology.slots[self.number]


def places(groups: Sequence[tuple[Profile, int]]) -> Iterator[Place]:
    """The place of each GPU, by NVML index: every server of a group has PCI domains of its own."""
    index = server = domain = 0
    for profile, count in groups:
        slots = profile.topology.slots
        domains = 1 + max(pci_address(slot.address)[0] for slot in slots)
        first_domain = domain
        for start in range(0, count, len(slots)):
            taken = min(len(slots), count - start)
            for number in range(taken):
                yield Place(profile, index, server, domain, first_domain, number, taken)
                index += 1
            server += 1
            domain += domains


def pci_address(text: str) -> tuple[int, int, int]:
    """Domain, bus and device of an address in a profile."""
    *domain, bus, device = text.split(":")
    return int(domain[0], 16) if domain else 0, int(bus, 16), int(device, 16)


def fill_links(state: layout.GpuState, place: Place) -> None:
    """Lets the links of a GPU end where its profile says, and registers it with the fabric where there is one."""
    nvlink = place.profile.nvlink
    if nvlink is None:
        return
    state.nvlink.version = nvlink.version
    ends = [*_switch_ends(place), *_bridge_ends(place)]
    for link, end in zip(state.links, ends, strict=False):
        if end is None:
            continue
        link.is_active = True
        link.remote_type, (link.remote_domain, link.remote_bus, link.remote_device), device_id = end
        link.remote_device_id = device_id and (device_id << 16) | NVIDIA_VENDOR
    state.nvlink.count = len(ends)
    if nvlink.has_fabric:
        fabric = state.fabric
        fabric.is_supported, fabric.state = True, _FABRIC_COMPLETED
        fabric.clique_id = nvlink.clique_id
        if nvlink.cluster_uuid is not None:
            fabric.cluster_uuid[:] = uuid.UUID(nvlink.cluster_uuid).bytes
        fabric.health_mask, fabric.health_summary = _FABRIC_FULL_BANDWIDTH, _FABRIC_HEALTHY


_End = tuple[int, tuple[int, int, int], int]
"""Type, address and PCI device id of what a link ends in."""


def _switch_ends(place: Place) -> Iterator[_End]:
    """One end for each link to an NVSwitch. A switch outside the server joins all servers of the group."""
    nvlink = place.profile.nvlink
    for switch in nvlink.switches if nvlink else ():
        address = (place.first_domain, 0, 0)
        if switch.address is not None:
            domain, bus, device = pci_address(switch.address)
            address = (place.domain + domain, bus, device)
        yield from [(layout.LINK_TO_SWITCH, address, nvlink.switch_device_id or 0)] * switch.links  # type: ignore[union-attr]


def _bridge_ends(place: Place) -> Iterator[_End | None]:
    """One end for each link to another slot; None where that slot is empty."""
    nvlink, slots = place.profile.nvlink, place.profile.topology.slots
    for bridge in nvlink.bridges if nvlink else ():
        if place.number not in bridge.slots:
            continue
        other = bridge.slots[0] if bridge.slots[1] == place.number else bridge.slots[1]
        domain, bus, device = pci_address(slots[other].address)
        end = (layout.LINK_TO_GPU, (place.domain + domain, bus, device), place.profile.pcie.device_id)
        yield from [end if other < place.taken else None] * bridge.links
