"""From profiles to the state of each GPU: addresses, UUIDs, links, memory, clocks as the idle machine shows them.

GPUs sit in servers, one after the other; their PCI addresses and what their NVLinks end in follow from that.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..profiles.mig_profiles import fill_mig
from ..profiles.profile import Profile, Slot
from ..state import layout

_MIB: Final = 1024 * 1024
# What drivers keep is no whole number of MiB: nvidia-smi, which rounds up (550 and newer), prints a reserved and a free
# size that are together 1 MiB more than the total, of every board that was seen. The half is an estimate.
_RESERVED_SHORT_OF_MIB: Final = _MIB // 2
_BRANDS: Final = {"tesla": 2, "geforce": 5, "nvidia": 14}
_ARCHITECTURES: Final = {"volta": 5, "turing": 6, "ampere": 7, "ada": 8, "hopper": 9, "blackwell": 10}
_ADDRESSING: Final = {"none": 0, "hmm": 1, "ats": 2}
_C2C: Final = {None: 0, "disabled": 1, "enabled": 2}
_UUIDS: Final = uuid.UUID("8c5a4f0e-52a5-4d0f-9f0c-0d8f5f1e7c11")
_NO_THRESHOLD: Final = -1
_REASON_GPU_IDLE: Final = 0x1
_REASONS_SUPPORTED: Final = 0x1FF
_SAMPLE_PERIOD_US: Final = 167_000
# When and how long an H100 was seen to write its black box.
_BLACK_BOX_FLUSHED_AT_US: Final = 1_708_607_349_459_000
_BLACK_BOX_FLUSH_US: Final = 119_019
# A slot that names no switch or bridge shares none: it gets a number that no server uses.
_OWN: Final = 1 << 24
_SHARED_PER_SERVER: Final = 256


def header_of(profile: Profile) -> layout.Header:
    """What the host reports of its driver."""
    version = profile.driver.version
    header = layout.Header()
    header.driver_version = version.encode()
    header.nvml_version = f"{profile.driver.cuda // 1000}.{version}".encode()
    header.driver_branch = f"r{version.partition('.')[0]}_00".encode()
    header.cuda_driver_version = profile.driver.cuda
    return header


def states_of(profile: Profile, count: int, seed: str) -> Iterator[layout.GpuState]:
    """The state of each GPU of an idle machine with one model; arguments as ``states_of_mix``."""
    return states_of_mix([(profile, count)], seed)


def states_of_mix(groups: Sequence[tuple[Profile, int]], seed: str) -> Iterator[layout.GpuState]:
    """The state of each GPU of an idle machine.

    Every group has PCI domains of its own, and so has every further server that it needs. CPUs and driver are those of
    the first group's server.

    Args:
        groups: each model with its number of GPUs, in the order of NVML indices.
        seed: UUIDs and serial numbers follow from it: the same seed gives the same machine.
    """
    cpus = groups[0][0].topology.cpus_per_numa_node
    driver = groups[0][0].driver.version
    for place in places(groups):
        state = layout.GpuState()
        _fill_identity(state, place, seed, driver)
        _fill_placement(state, place, cpus)
        _fill_pci(state, place)
        _fill_memory(state, place.profile)
        _fill_thermal_and_power(state, place.profile)
        _fill_fans(state, place.profile)
        _fill_clocks(state, place.profile)
        _fill_features(state, place.profile)
        _fill_firmware(state, place.profile)
        fill_links(state, place)
        state.identity.board_id = (state.pci.domain << 16) | (state.pci.bus << 8) | state.pci.device
        yield state


def _fill_identity(state: layout.GpuState, place: Place, seed: str, driver: str) -> None:
    board = uuid.uuid5(_UUIDS, f"{seed}/{place.index}")
    model, identity = place.profile.identity, state.identity
    identity.name = model.name.encode()
    identity.uuid = f"GPU-{board}".encode()
    identity.serial = f"{board.int % 10**13:013d}".encode()
    identity.part_number = (model.part_number or "").encode()
    identity.vbios_version = model.vbios_version.encode()
    identity.inforom_image = model.inforom_image.encode()
    identity.inforom_oem = model.inforom_oem.encode()
    identity.inforom_ecc = model.inforom_ecc.encode()
    if place.profile.features.gsp_firmware:
        identity.gsp_firmware = driver.encode()
    identity.minor_number = place.index
    identity.brand = _BRANDS[model.brand]
    identity.architecture = _ARCHITECTURES[model.architecture]
    major, _, minor = model.compute_capability.partition(".")
    identity.compute_major, identity.compute_minor = int(major), int(minor)
    identity.core_count = model.cuda_cores
    identity.module_id = place.slot.module or place.number + 1
    state.fault.supported_events = sum(event.nvml_bit for event in model.events)


def _fill_placement(state: layout.GpuState, place: Place, cpus: int) -> None:
    own = _OWN + place.index
    shared = _SHARED_PER_SERVER * place.server
    placement, slot = state.placement, place.slot
    placement.numa_node = slot.numa_node
    placement.board = own
    placement.pcie_switch = own if slot.pcie_switch is None else shared + slot.pcie_switch
    placement.switch_tree = own if slot.switch_tree is None else shared + slot.switch_tree
    placement.host_bridge = own if slot.host_bridge is None else shared + slot.host_bridge
    for cpu in range(slot.numa_node * cpus, (slot.numa_node + 1) * cpus):
        if cpu < 64 * layout.CPU_WORDS:
            placement.cpu_mask[cpu // 64] |= 1 << cpu % 64


def _fill_pci(state: layout.GpuState, place: Place) -> None:
    link, pci = place.profile.pcie, state.pci
    domain, pci.bus, pci.device = pci_address(place.slot.address)
    pci.domain = place.domain + domain
    pci.device_id = (link.device_id << 16) | NVIDIA_VENDOR
    pci.subsystem_id = link.subsystem_id
    pci.link_generation = pci.link_generation_max = pci.gpu_link_generation_max = link.generation
    pci.link_width = pci.link_width_max = link.width
    pci.irq = 64 + state.identity.minor_number


def _fill_memory(state: layout.GpuState, profile: Profile) -> None:
    memory = state.memory
    memory.total_bytes = profile.memory.total_mib * _MIB
    memory.reserved_bytes = max(0, profile.memory.reserved_mib * _MIB - _RESERVED_SHORT_OF_MIB)
    memory.bar1_total_bytes = profile.memory.bar1_mib * _MIB
    memory.bar1_used_bytes = _MIB
    memory.bus_width_bits = profile.memory.bus_width_bits


def _fill_thermal_and_power(state: layout.GpuState, profile: Profile) -> None:
    limits, thermal, power = profile.thermal, state.thermal, state.power
    thermal.gpu_c = limits.idle_c
    thermal.has_memory_sensor = limits.memory_idle_c is not None
    thermal.memory_c = limits.memory_idle_c or 0
    memory_max = _NO_THRESHOLD if limits.memory_max_c is None else limits.memory_max_c
    known = (limits.shutdown_c, limits.slowdown_c, memory_max, limits.gpu_max_c)
    for threshold in range(len(thermal.threshold_c)):
        thermal.threshold_c[threshold] = known[threshold] if threshold < len(known) else _NO_THRESHOLD
    power.usage_mw = profile.power.idle_w * 1000
    power.limit_mw = power.default_limit_mw = profile.power.limit_w * 1000
    power.limit_min_mw = profile.power.limit_min_w * 1000
    power.limit_max_mw = profile.power.limit_max_w * 1000
    power.memory_usage_mw = (profile.power.memory_idle_w or 0) * 1000
    if module := profile.power.module:
        state.module_power.usage_mw = module.idle_w * 1000
        state.module_power.limit_mw = state.module_power.default_limit_mw = module.limit_w * 1000
        state.module_power.limit_min_mw = module.limit_min_w * 1000
        state.module_power.limit_max_mw = module.limit_max_w * 1000


def _fill_fans(state: layout.GpuState, profile: Profile) -> None:
    if profile.fans is None:
        return
    fans = state.fans
    fans.count = profile.fans.count
    fans.min_percent, fans.max_percent, fans.max_rpm = profile.fans.min_percent, 100, profile.fans.max_rpm
    for fan in range(fans.count):
        fans.percent[fan] = fans.target_percent[fan] = profile.fans.idle_percent


def _fill_clocks(state: layout.GpuState, profile: Profile) -> None:
    model, clocks = profile.clocks, state.clocks
    for target, source in (
        (clocks.current_mhz, model.idle),
        (clocks.maximum_mhz, model.maximum),
        (clocks.application_mhz, model.application),
        (clocks.default_application_mhz, model.application),
    ):
        if source is not None:
            target[:] = (source.graphics, source.sm, source.memory, source.video)
    for position, supported in enumerate(model.supported):
        clocks.memory_mhz[position] = supported.memory
        clocks.graphics_max_mhz[position] = supported.graphics_max
    clocks.graphics_min_mhz = model.graphics_min
    clocks.graphics_step_khz = round(model.graphics_step * 1000)
    clocks.offset_max_mhz[:] = (model.offset_max, model.offset_max)
    clocks.performance_state = model.idle_performance_state
    clocks.performance_states = sum(1 << number for number in model.performance_states)
    clocks.event_reasons = _REASON_GPU_IDLE
    clocks.supported_event_reasons = _REASONS_SUPPORTED


def _fill_features(state: layout.GpuState, profile: Profile) -> None:
    features = profile.features
    ecc = state.ecc
    ecc.is_supported = features.ecc != "absent"
    ecc.current = ecc.pending = ecc.default_mode = features.ecc == "enabled"
    state.remap.is_supported = features.remap_banks is not None
    state.remap.banks_max = features.remap_banks or 0
    state.modes.persistence = True
    fill_mig(state, features.mig)
    state.modes.addressing = _ADDRESSING[features.addressing]
    state.utilization.has_jpeg = features.jpeg_engine
    state.utilization.has_ofa = features.optical_flow_engine
    state.utilization.has_encoder = features.encoder
    state.utilization.period_us = _SAMPLE_PERIOD_US


def _fill_firmware(state: layout.GpuState, profile: Profile) -> None:
    firmware, features = state.firmware, profile.features
    board = uuid.UUID(state.identity.uuid.decode().removeprefix("GPU-"))
    firmware.inforom_checksum = board.fields[0]
    firmware.pdi = board.int >> 64
    firmware.c2c = _C2C[features.c2c]
    if features.black_box:
        firmware.flushed_at_us, firmware.flush_us = _BLACK_BOX_FLUSHED_AT_US, _BLACK_BOX_FLUSH_US


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
    """Let the links of a GPU end where its profile says, and register it with the fabric where there is one."""
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
