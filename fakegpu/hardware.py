"""From a profile to the state of each GPU: addresses, UUIDs, links, memory, clocks as the idle machine shows them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Final

from . import _layout
from .profile import Profile, Slot

_MIB: Final = 1024 * 1024
_NVIDIA_VENDOR: Final = 0x10DE
_BRANDS: Final = {"tesla": 2, "nvidia": 14}
_ARCHITECTURES: Final = {"turing": 6, "ampere": 7, "hopper": 9}
_UUIDS: Final = uuid.UUID("8c5a4f0e-52a5-4d0f-9f0c-0d8f5f1e7c11")
_SWITCH_REMOTE: Final = 2
_NO_THRESHOLD: Final = -1
_REASON_GPU_IDLE: Final = 0x1
_REASONS_SUPPORTED: Final = 0x1FF
_FABRIC_COMPLETED: Final = 3
_FABRIC_HEALTHY: Final = 1
_FABRIC_FULL_BANDWIDTH: Final = 2
_SAMPLE_PERIOD_US: Final = 167_000
# A slot that names no switch or bridge shares none: it gets a number that no profile uses.
_OWN: Final = 1 << 16


def header_of(profile: Profile) -> _layout.Header:
    """What the host reports of its driver."""
    version = profile.driver.version
    header = _layout.Header()
    header.driver_version = version.encode()
    header.nvml_version = f"{profile.driver.cuda // 1000}.{version}".encode()
    header.driver_branch = f"r{version.partition('.')[0]}_00".encode()
    header.cuda_driver_version = profile.driver.cuda
    return header


def states_of(profile: Profile, count: int, seed: str) -> Iterator[_layout.GpuState]:
    """The state of each GPU of an idle machine.

    Args:
        profile: the model and its server.
        count: number of GPUs.
        seed: UUIDs and serial numbers follow from it: the same seed gives the same machine.
    """
    slots = profile.topology.slots
    for index in range(count):
        domain, place = divmod(index, len(slots))
        state = _layout.GpuState()
        _fill_identity(state, profile, index, seed)
        _fill_placement(state, profile, index, domain, slots[place])
        _fill_pci(state, profile, domain, slots[place])
        _fill_memory(state, profile)
        _fill_thermal_and_power(state, profile)
        _fill_clocks(state, profile)
        _fill_features(state, profile)
        _fill_links(state, profile, domain)
        state.identity.board_id = (domain << 16) | (state.pci.bus << 8) | state.pci.device
        state.identity.module_id = place + 1
        yield state


def _fill_identity(state: _layout.GpuState, profile: Profile, index: int, seed: str) -> None:
    board = uuid.uuid5(_UUIDS, f"{seed}/{index}")
    model, identity = profile.identity, state.identity
    identity.name = model.name.encode()
    identity.uuid = f"GPU-{board}".encode()
    identity.serial = f"{board.int % 10**13:013d}".encode()
    identity.part_number = model.part_number.encode()
    identity.vbios_version = model.vbios_version.encode()
    identity.inforom_image = model.inforom_image.encode()
    identity.inforom_oem = b"2.1"
    identity.inforom_ecc = b"7.16"
    identity.gsp_firmware = profile.driver.version.encode()
    identity.minor_number = index
    identity.brand = _BRANDS[model.brand]
    identity.architecture = _ARCHITECTURES[model.architecture]
    major, _, minor = model.compute_capability.partition(".")
    identity.compute_major, identity.compute_minor = int(major), int(minor)
    identity.core_count = model.cuda_cores
    state.fault.supported_events = sum(event.nvml_bit for event in model.events)


def _fill_placement(state: _layout.GpuState, profile: Profile, index: int, domain: int, slot: Slot) -> None:
    own = _OWN + index
    shared = domain * len(profile.topology.slots)
    placement = state.placement
    placement.numa_node = slot.numa_node
    placement.board = own
    placement.pcie_switch = own if slot.pcie_switch is None else shared + slot.pcie_switch
    placement.switch_tree = own if slot.switch_tree is None else shared + slot.switch_tree
    placement.host_bridge = own if slot.host_bridge is None else shared + slot.host_bridge
    width = profile.topology.cpus_per_numa_node
    for cpu in range(slot.numa_node * width, (slot.numa_node + 1) * width):
        if cpu < 64 * _layout.CPU_WORDS:
            placement.cpu_mask[cpu // 64] |= 1 << cpu % 64


def _fill_pci(state: _layout.GpuState, profile: Profile, domain: int, slot: Slot) -> None:
    link, pci = profile.pcie, state.pci
    bus, _, device = slot.address.partition(":")
    pci.domain, pci.bus, pci.device = domain, int(bus, 16), int(device, 16)
    pci.device_id = (link.device_id << 16) | _NVIDIA_VENDOR
    pci.subsystem_id = link.subsystem_id
    pci.link_generation = pci.link_generation_max = pci.gpu_link_generation_max = link.generation
    pci.link_width = pci.link_width_max = link.width
    pci.irq = 64 + state.identity.minor_number


def _fill_memory(state: _layout.GpuState, profile: Profile) -> None:
    memory = state.memory
    memory.total_bytes = profile.memory.total_mib * _MIB
    memory.reserved_bytes = profile.memory.reserved_mib * _MIB
    memory.bar1_total_bytes = profile.memory.bar1_mib * _MIB
    memory.bar1_used_bytes = _MIB
    memory.bus_width_bits = profile.memory.bus_width_bits


def _fill_thermal_and_power(state: _layout.GpuState, profile: Profile) -> None:
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


def _fill_clocks(state: _layout.GpuState, profile: Profile) -> None:
    model, clocks = profile.clocks, state.clocks
    for target, source in (
        (clocks.current_mhz, model.idle),
        (clocks.maximum_mhz, model.maximum),
        (clocks.application_mhz, model.application),
    ):
        target[:] = (source.graphics, source.sm, source.memory, source.video)
    for position, frequency in enumerate(model.supported_memory):
        clocks.memory_mhz[position] = frequency
    clocks.graphics_min_mhz = model.graphics_min
    clocks.graphics_step_mhz = model.graphics_step
    clocks.performance_state = model.idle_performance_state
    clocks.performance_states = sum(1 << number for number in model.performance_states)
    clocks.event_reasons = _REASON_GPU_IDLE
    clocks.supported_event_reasons = _REASONS_SUPPORTED


def _fill_features(state: _layout.GpuState, profile: Profile) -> None:
    features = profile.features
    ecc = state.ecc
    ecc.is_supported = ecc.current = ecc.pending = ecc.default_mode = features.ecc
    state.remap.is_supported = features.row_remapping
    state.remap.banks_max = profile.memory.bus_width_bits // 8 if features.row_remapping else 0
    state.modes.persistence = True
    state.modes.mig_supported = features.mig
    state.utilization.has_jpeg = features.jpeg_engine
    state.utilization.has_ofa = features.optical_flow_engine
    state.utilization.period_us = _SAMPLE_PERIOD_US


def _fill_links(state: _layout.GpuState, profile: Profile, domain: int) -> None:
    nvlink = profile.nvlink
    if nvlink is None:
        return
    state.nvlink.version = nvlink.version
    number = 0
    for switch in nvlink.switches:
        bus, _, device = switch.address.partition(":")
        for _ in range(switch.links):
            link = state.links[number]
            link.is_active, link.remote_type = True, _SWITCH_REMOTE
            link.remote_domain, link.remote_bus, link.remote_device = domain, int(bus, 16), int(device, 16)
            link.remote_device_id = (nvlink.switch_device_id << 16) | _NVIDIA_VENDOR
            number += 1
    state.nvlink.count = number
    if nvlink.has_fabric:
        fabric = state.fabric
        fabric.is_supported, fabric.state = True, _FABRIC_COMPLETED
        fabric.health_mask, fabric.health_summary = _FABRIC_FULL_BANDWIDTH, _FABRIC_HEALTHY
