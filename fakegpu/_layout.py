"""Python's view of the segment file: the structs of ``native/state.h`` as ctypes structures.

The C header is the original. The test ``test_layout_matches_library`` compares every offset and size with the compiled
library, and the library refuses segments of another version, so the two cannot drift apart unseen.
"""

from __future__ import annotations

import ctypes
from typing import Final

MAGIC: Final = int.from_bytes(b"FFAKEGPU", "little")
VERSION: Final = 1
GPUS_MAX: Final = 1024
EVENTS_MAX: Final = 1024
LINKS_MAX: Final = 18
MEMORY_CLOCKS_MAX: Final = 8
CPU_WORDS: Final = 16

EVENT_GPU_LOST: Final = 1 << 63

_i32, _u8, _u32, _u64 = ctypes.c_int32, ctypes.c_uint8, ctypes.c_uint32, ctypes.c_uint64


class Fault(ctypes.Structure):
    """``fg_fault``."""

    _fields_ = [("is_lost", _u32), ("last_xid", _u32), ("xid_count", _u64), ("supported_events", _u64)]


class Identity(ctypes.Structure):
    """``fg_identity``."""

    _fields_ = [
        ("name", ctypes.c_char * 96),
        ("uuid", ctypes.c_char * 96),
        ("serial", ctypes.c_char * 32),
        ("part_number", ctypes.c_char * 80),
        ("vbios_version", ctypes.c_char * 32),
        ("inforom_image", ctypes.c_char * 16),
        ("inforom_oem", ctypes.c_char * 16),
        ("inforom_ecc", ctypes.c_char * 16),
        ("inforom_power", ctypes.c_char * 16),
        ("gsp_firmware", ctypes.c_char * 64),
        ("minor_number", _u32),
        ("brand", _u32),
        ("architecture", _u32),
        ("board_id", _u32),
        ("module_id", _u32),
        ("compute_major", _u32),
        ("compute_minor", _u32),
        ("core_count", _u32),
    ]


class Pci(ctypes.Structure):
    """``fg_pci``."""

    _fields_ = [
        ("domain", _u32),
        ("bus", _u32),
        ("device", _u32),
        ("device_id", _u32),
        ("subsystem_id", _u32),
        ("link_generation", _u32),
        ("link_generation_max", _u32),
        ("gpu_link_generation_max", _u32),
        ("link_width", _u32),
        ("link_width_max", _u32),
        ("replay_count", _u32),
        ("tx_kb_per_s", _u32),
        ("rx_kb_per_s", _u32),
        ("irq", _u32),
    ]


class Memory(ctypes.Structure):
    """``fg_memory``."""

    _fields_ = [
        ("total_bytes", _u64),
        ("reserved_bytes", _u64),
        ("used_bytes", _u64),
        ("bar1_total_bytes", _u64),
        ("bar1_used_bytes", _u64),
        ("bus_width_bits", _u32),
        ("padding", _u32),
    ]


class Thermal(ctypes.Structure):
    """``fg_thermal``."""

    _fields_ = [
        ("gpu_c", _u32),
        ("memory_c", _u32),
        ("has_memory_sensor", _u32),
        ("fan_count", _u32),
        ("fan_percent", _u32),
        ("padding", _u32),
        ("threshold_c", _i32 * 8),
    ]


class Power(ctypes.Structure):
    """``fg_power``."""

    _fields_ = [
        ("usage_mw", _u32),
        ("limit_mw", _u32),
        ("default_limit_mw", _u32),
        ("limit_min_mw", _u32),
        ("limit_max_mw", _u32),
        ("padding", _u32),
        ("energy_mj", _u64),
    ]


class Clocks(ctypes.Structure):
    """``fg_clocks``."""

    _fields_ = [
        ("current_mhz", _u32 * 4),
        ("maximum_mhz", _u32 * 4),
        ("application_mhz", _u32 * 4),
        ("memory_mhz", _u32 * MEMORY_CLOCKS_MAX),
        ("graphics_min_mhz", _u32),
        ("graphics_step_mhz", _u32),
        ("performance_state", _u32),
        ("performance_states", _u32),
        ("event_reasons", _u64),
        ("supported_event_reasons", _u64),
    ]


class Utilization(ctypes.Structure):
    """``fg_utilization``."""

    _fields_ = [
        ("gpu_percent", _u32),
        ("memory_percent", _u32),
        ("encoder_percent", _u32),
        ("decoder_percent", _u32),
        ("jpeg_percent", _u32),
        ("ofa_percent", _u32),
        ("has_jpeg", _u32),
        ("has_ofa", _u32),
        ("period_us", _u32),
        ("padding", _u32),
    ]


class Ecc(ctypes.Structure):
    """``fg_ecc``; ``errors`` by error type, counter type and memory location of NVML."""

    _fields_ = [
        ("is_supported", _u32),
        ("current", _u32),
        ("pending", _u32),
        ("default_mode", _u32),
        ("errors", _u64 * 8 * 2 * 2),
    ]


class Remap(ctypes.Structure):
    """``fg_remap``."""

    _fields_ = [
        ("is_supported", _u32),
        ("corrected_rows", _u32),
        ("uncorrected_rows", _u32),
        ("is_pending", _u32),
        ("has_failed", _u32),
        ("banks_max", _u32),
        ("banks_high", _u32),
        ("banks_partial", _u32),
        ("banks_low", _u32),
        ("banks_none", _u32),
    ]


class Modes(ctypes.Structure):
    """``fg_modes``."""

    _fields_ = [
        ("persistence", _u32),
        ("compute", _u32),
        ("display", _u32),
        ("display_active", _u32),
        ("accounting", _u32),
        ("mig_supported", _u32),
        ("mig_current", _u32),
        ("mig_pending", _u32),
        ("addressing", _u32),
        ("padding", _u32),
    ]


class Placement(ctypes.Structure):
    """``fg_placement``."""

    _fields_ = [
        ("numa_node", _i32),
        ("board", _u32),
        ("pcie_switch", _u32),
        ("switch_tree", _u32),
        ("host_bridge", _u32),
        ("padding", _u32),
        ("cpu_mask", _u64 * CPU_WORDS),
    ]


class Link(ctypes.Structure):
    """``fg_link``."""

    _fields_ = [
        ("is_active", _u32),
        ("remote_type", _u32),
        ("remote_domain", _u32),
        ("remote_bus", _u32),
        ("remote_device", _u32),
        ("remote_device_id", _u32),
        ("errors", _u64 * 5),
    ]


class NvLink(ctypes.Structure):
    """``fg_nvlink``."""

    _fields_ = [("count", _u32), ("version", _u32)]


class Fabric(ctypes.Structure):
    """``fg_fabric``."""

    _fields_ = [
        ("is_supported", _u32),
        ("state", _u32),
        ("status", _u32),
        ("clique_id", _u32),
        ("health_mask", _u32),
        ("health_summary", _u32),
        ("cluster_uuid", _u8 * 16),
    ]


class GpuState(ctypes.Structure):
    """``fg_gpu_state``: everything that NVML tells about one GPU."""

    _fields_ = [
        ("fault", Fault),
        ("identity", Identity),
        ("pci", Pci),
        ("memory", Memory),
        ("thermal", Thermal),
        ("power", Power),
        ("clocks", Clocks),
        ("utilization", Utilization),
        ("ecc", Ecc),
        ("remap", Remap),
        ("modes", Modes),
        ("placement", Placement),
        ("nvlink", NvLink),
        ("links", Link * LINKS_MAX),
        ("fabric", Fabric),
    ]


class GpuRecord(ctypes.Structure):
    """``fg_gpu``: two copies of the state, of which ``sequence`` names the one in force."""

    _fields_ = [("sequence", _u32), ("padding", _u32 * 15), ("states", GpuState * 2), ("tail", _u8 * 2992)]


class Event(ctypes.Structure):
    """``fg_event``."""

    _fields_ = [
        ("ticket", _u64),
        ("type", _u64),
        ("data", _u64),
        ("gpu", _u32),
        ("gpu_instance", _u32),
        ("compute_instance", _u32),
        ("padding", _u32),
        ("timestamp_us", _u64),
        ("tail", _u64 * 2),
    ]


class Ring(ctypes.Structure):
    """``fg_ring``."""

    _fields_ = [("head", _u64), ("wake", _u32), ("padding", _u32 * 13), ("events", Event * EVENTS_MAX)]


class Header(ctypes.Structure):
    """``fg_segment`` without the array of GPUs that ends it."""

    _fields_ = [
        ("magic", _u64),
        ("version", _u32),
        ("gpu_count", _u32),
        ("size_bytes", _u64),
        ("cuda_driver_version", _i32),
        ("padding", _u32),
        ("driver_version", ctypes.c_char * 80),
        ("nvml_version", ctypes.c_char * 80),
        ("driver_branch", ctypes.c_char * 80),
        ("tail", _u8 * 240),
        ("ring", Ring),
    ]


STRUCTS: Final[dict[str, type[ctypes.Structure]]] = {
    "fg_fault": Fault,
    "fg_identity": Identity,
    "fg_pci": Pci,
    "fg_memory": Memory,
    "fg_thermal": Thermal,
    "fg_power": Power,
    "fg_clocks": Clocks,
    "fg_utilization": Utilization,
    "fg_ecc": Ecc,
    "fg_remap": Remap,
    "fg_modes": Modes,
    "fg_placement": Placement,
    "fg_link": Link,
    "fg_nvlink": NvLink,
    "fg_fabric": Fabric,
    "fg_gpu_state": GpuState,
    "fg_gpu": GpuRecord,
    "fg_event": Event,
    "fg_ring": Ring,
    "fg_segment": Header,
}
