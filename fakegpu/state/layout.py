"""Python's view of the segment file: the structs of ``native/core/state.h`` as ctypes structures.

The C header is the original. Whoever loads the library compares every offset and size with those it was compiled with,
and the library refuses segments of another version, so the two cannot drift apart unseen.
"""

from __future__ import annotations

import ctypes
from typing import Final

MAGIC: Final = int.from_bytes(b"FFAKEGPU", "little")
VERSION: Final = 6
GPUS_MAX: Final = 1024
EVENTS_MAX: Final = 1024
LINKS_MAX: Final = 18
MEMORY_CLOCKS_MAX: Final = 8
CPU_WORDS: Final = 16
PROCESSES_MAX: Final = 32
ACCOUNTS_MAX: Final = 32
FRAMES_MAX: Final = 256
FANS_MAX: Final = 4
MIG_PROFILES: Final = 18
GPU_INSTANCES: Final = 16
COMPUTE_INSTANCES: Final = 8
RULES_MAX: Final = 32
PLANS_MAX: Final = 64
DELAY_POINTS: Final = 8
GPU_BYTES: Final = 16384

NO_GPU: Final = (1 << 32) - 1
NO_INSTANCE: Final = (1 << 32) - 1
FOR_EVER: Final = (1 << 64) - 1
FAULT_RULES: Final = 1
FAULT_PLANS: Final = 2
FAULT_WAIT: Final = 4

EVENT_GPU_LOST: Final = 1 << 63

LINK_TO_GPU: Final = 0
LINK_TO_SWITCH: Final = 2

LIVE_MEMORY: Final = 0x1
LIVE_THERMAL: Final = 0x2
LIVE_FANS: Final = 0x4
LIVE_POWER: Final = 0x8
LIVE_CLOCKS: Final = 0x10
LIVE_UTILIZATION: Final = 0x20
LIVE_PCI: Final = 0x40
LIVE_ALL: Final = 0x7F

PROCESS_COMPUTE: Final = 0x1
PROCESS_GRAPHICS: Final = 0x2
PROCESS_MPS: Final = 0x4

_i32, _u8, _u16 = ctypes.c_int32, ctypes.c_uint8, ctypes.c_uint16
_u32, _u64 = ctypes.c_uint32, ctypes.c_uint64


class Fault(ctypes.Structure):
    """``fg_fault``."""

    _fields_ = [
        ("is_lost", _u32),
        ("last_xid", _u32),
        ("xid_count", _u64),
        ("supported_events", _u64),
        ("is_unplugged", _u32),
        ("is_throttled", _u32),
        ("cool_gpu_c", _u32),
        ("cool_memory_c", _u32),
        ("cool_mhz", _u32 * 4),
        ("cool_event_reasons", _u64),
        ("links_down", _u32),
        ("padding", _u32),
    ]


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
        ("padding", _u32),
        ("threshold_c", _i32 * 8),
    ]


class Fans(ctypes.Structure):
    """``fg_fans``."""

    _fields_ = [
        ("count", _u32),
        ("min_percent", _u32),
        ("max_percent", _u32),
        ("max_rpm", _u32),
        ("percent", _u32 * FANS_MAX),
        ("target_percent", _u32 * FANS_MAX),
        ("is_manual", _u32 * FANS_MAX),
    ]


class Power(ctypes.Structure):
    """``fg_power``."""

    _fields_ = [
        ("usage_mw", _u32),
        ("limit_mw", _u32),
        ("default_limit_mw", _u32),
        ("limit_min_mw", _u32),
        ("limit_max_mw", _u32),
        ("memory_usage_mw", _u32),
        ("energy_mj", _u64),
        ("energy_at_ns", _u64),
    ]


class ModulePower(ctypes.Structure):
    """``fg_module_power``."""

    _fields_ = [
        ("usage_mw", _u32),
        ("limit_mw", _u32),
        ("default_limit_mw", _u32),
        ("limit_min_mw", _u32),
        ("limit_max_mw", _u32),
        ("padding", _u32),
    ]


class Clocks(ctypes.Structure):
    """``fg_clocks``."""

    _fields_ = [
        ("current_mhz", _u32 * 4),
        ("maximum_mhz", _u32 * 4),
        ("application_mhz", _u32 * 4),
        ("default_application_mhz", _u32 * 4),
        ("locked_graphics_mhz", _u32 * 2),
        ("locked_memory_mhz", _u32 * 2),
        ("memory_mhz", _u32 * MEMORY_CLOCKS_MAX),
        ("graphics_max_mhz", _u32 * MEMORY_CLOCKS_MAX),
        ("graphics_min_mhz", _u32),
        ("graphics_step_khz", _u32),
        ("performance_state", _u32),
        ("performance_states", _u32),
        ("offset_mhz", _i32 * 2),
        ("offset_max_mhz", _i32 * 2),
        ("anyone_sets_applications_clocks", _u32),
        ("padding", _u32),
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
        ("has_encoder", _u32),
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
        ("retired_pages", _u32 * 2),
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
        ("is_draining", _u32),
        ("gpm_is_streaming", _u32),
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

    _fields_ = [("count", _u32), ("version", _u32), ("low_power_threshold", _u32), ("bandwidth_mode", _u32)]


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


class Firmware(ctypes.Structure):
    """``fg_firmware``."""

    _fields_ = [
        ("flushed_at_us", _u64),
        ("flush_us", _u64),
        ("pdi", _u64),
        ("inforom_checksum", _u32),
        ("c2c", _u32),
        ("hostname", ctypes.c_char * 64),
    ]


class Counters(ctypes.Structure):
    """``fg_counters``."""

    _fields_ = [
        ("violation_ns", _u64 * 12),
        ("pcie_errors", _u64 * 11),
        ("pcie_tx_bytes", _u64),
        ("pcie_rx_bytes", _u64),
        ("nvlink_tx_kib", _u64),
        ("nvlink_rx_kib", _u64),
    ]


class MigProfile(ctypes.Structure):
    """``fg_mig_profile``."""

    _fields_ = [
        ("name", ctypes.c_char * 24),
        ("is_here", _u32),
        ("id", _u32),
        ("slices", _u32),
        ("instances", _u32),
        ("multiprocessors", _u32),
        ("copy_engines", _u32),
        ("decoders", _u32),
        ("encoders", _u32),
        ("jpegs", _u32),
        ("ofas", _u32),
        ("capabilities", _u32),
        ("memory_mib", _u32),
        ("size", _u32),
        ("starts", _u32),
    ]


class GpuInstance(ctypes.Structure):
    """``fg_gpu_instance``."""

    _fields_ = [("is_here", _u32), ("profile", _u32), ("start", _u32), ("padding", _u32), ("used_bytes", _u64)]


class ComputeInstance(ctypes.Structure):
    """``fg_compute_instance``."""

    _fields_ = [
        ("is_here", _u32),
        ("gpu_instance", _u32),
        ("id", _u32),
        ("profile", _u32),
        ("start", _u32),
        ("mode", _u32),
    ]


class Mig(ctypes.Structure):
    """``fg_mig``."""

    _fields_ = [
        ("memory_slices", _u32),
        ("compute_slices", _u32),
        ("needs_reset", _u32),
        ("slice_multiprocessors", _u32),
        ("profiles", MigProfile * MIG_PROFILES),
        ("gpu_instances", GpuInstance * GPU_INSTANCES),
        ("compute_instances", ComputeInstance * COMPUTE_INSTANCES),
    ]


class Process(ctypes.Structure):
    """``fg_process``."""

    _fields_ = [
        ("pid", _u32),
        ("kind", _u32),
        ("start_ticks", _u64),
        ("used_bytes", _u64),
        ("most_bytes", _u64),
        ("gpu_instance", _u32),
        ("compute_instance", _u32),
    ]


class Processes(ctypes.Structure):
    """``fg_processes``."""

    _fields_ = [("count", _u32), ("padding", _u32), ("entries", Process * PROCESSES_MAX)]


class Account(ctypes.Structure):
    """``fg_account``."""

    _fields_ = [
        ("pid", _u32),
        ("gpu_percent", _u16),
        ("memory_percent", _u16),
        ("start_us", _u64),
        ("time_ms", _u64),
        ("most_bytes", _u64),
    ]


class Accounts(ctypes.Structure):
    """``fg_accounts``."""

    _fields_ = [("count", _u32), ("padding", _u32), ("entries", Account * ACCOUNTS_MAX)]


class Load(ctypes.Structure):
    """``fg_load``."""

    _fields_ = [("topics", _u32), ("bank", _u32), ("count", _u32), ("loop_to", _u32), ("started_ns", _u64)]


class Frame(ctypes.Structure):
    """``fg_frame``."""

    _fields_ = [
        ("energy_mj", _u64),
        ("memory_used_bytes", _u64),
        ("time_ms", _u32),
        ("power_mw", _u32),
        ("graphics_mhz", _u32),
        ("memory_mhz", _u32),
        ("event_reasons", _u32),
        ("performance_state", _u32),
        ("pcie_tx_kb_per_s", _u32),
        ("pcie_rx_kb_per_s", _u32),
        ("gpu_c", _u16),
        ("memory_c", _u16),
        ("gpu_percent", _u16),
        ("memory_percent", _u16),
        ("encoder_percent", _u16),
        ("decoder_percent", _u16),
        ("fan_percent", _u16),
        ("padding", _u16),
    ]


class Bank(ctypes.Structure):
    """``fg_bank``."""

    _fields_ = [("frames", Frame * FRAMES_MAX)]


class GpuState(ctypes.Structure):
    """``fg_gpu_state``: everything that NVML tells about one GPU."""

    _fields_ = [
        ("fault", Fault),
        ("identity", Identity),
        ("pci", Pci),
        ("memory", Memory),
        ("thermal", Thermal),
        ("fans", Fans),
        ("power", Power),
        ("module_power", ModulePower),
        ("clocks", Clocks),
        ("utilization", Utilization),
        ("ecc", Ecc),
        ("remap", Remap),
        ("modes", Modes),
        ("placement", Placement),
        ("nvlink", NvLink),
        ("links", Link * LINKS_MAX),
        ("fabric", Fabric),
        ("firmware", Firmware),
        ("counters", Counters),
        ("mig", Mig),
        ("processes", Processes),
        ("accounts", Accounts),
        ("load", Load),
    ]


class GpuRecord(ctypes.Structure):
    """``fg_gpu``: two copies of the state, of which ``sequence`` names the one in force."""

    _fields_ = [
        ("sequence", _u32),
        ("live_topics", _u32),
        ("banks_at", _u64),
        ("padding", _u32 * 12),
        ("states", GpuState * 2),
        ("tail", _u8 * (GPU_BYTES - 64 - 2 * ctypes.sizeof(GpuState))),
    ]


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


class Rule(ctypes.Structure):
    """``fg_rule``."""

    _fields_ = [
        ("number", _u64),
        ("from_us", _u64),
        ("until_us", _u64),
        ("seed", _u64),
        ("left", _u64),
        ("function", ctypes.c_char * 64),
        ("gpu", _u32),
        ("error", _u32),
        ("every", _u32),
        ("chance", _u32),
        ("delay_count", _u32),
        ("padding", _u32),
        ("delay_share", _u32 * DELAY_POINTS),
        ("delay_us", _u32 * DELAY_POINTS),
    ]


class Action(ctypes.Structure):
    """``fg_action``."""

    _fields_ = [
        ("kind", _u32),
        ("gpu", _u32),
        ("gpu_instance", _u32),
        ("compute_instance", _u32),
        ("argument", _u64),
    ]


class Plan(ctypes.Structure):
    """``fg_plan``."""

    _fields_ = [("number", _u64), ("due_us", _u64), ("period_us", _u64), ("left", _u64), ("action", Action)]


class Faults(ctypes.Structure):
    """``fg_faults``."""

    _fields_ = [
        ("last_number", _u64),
        ("due_us", _u64),
        ("rules", Rule * RULES_MAX),
        ("plans", Plan * PLANS_MAX),
        ("tail", _u64 * 6),
    ]


class Header(ctypes.Structure):
    """``fg_segment`` without the array of GPUs that ends it."""

    _fields_ = [
        ("magic", _u64),
        ("version", _u32),
        ("gpu_count", _u32),
        ("size_bytes", _u64),
        ("cuda_driver_version", _i32),
        ("fault_flags", _u32),
        ("driver_version", ctypes.c_char * 80),
        ("nvml_version", ctypes.c_char * 80),
        ("driver_branch", ctypes.c_char * 80),
        ("loaded_at_us", _u64),
        ("tail", _u8 * 232),
        ("ring", Ring),
        ("faults", Faults),
    ]


STRUCTS: Final[dict[str, type[ctypes.Structure]]] = {
    "fg_fault": Fault,
    "fg_identity": Identity,
    "fg_pci": Pci,
    "fg_memory": Memory,
    "fg_thermal": Thermal,
    "fg_fans": Fans,
    "fg_power": Power,
    "fg_module_power": ModulePower,
    "fg_clocks": Clocks,
    "fg_utilization": Utilization,
    "fg_ecc": Ecc,
    "fg_remap": Remap,
    "fg_modes": Modes,
    "fg_placement": Placement,
    "fg_link": Link,
    "fg_nvlink": NvLink,
    "fg_fabric": Fabric,
    "fg_firmware": Firmware,
    "fg_counters": Counters,
    "fg_mig_profile": MigProfile,
    "fg_gpu_instance": GpuInstance,
    "fg_compute_instance": ComputeInstance,
    "fg_mig": Mig,
    "fg_process": Process,
    "fg_processes": Processes,
    "fg_account": Account,
    "fg_accounts": Accounts,
    "fg_load": Load,
    "fg_frame": Frame,
    "fg_bank": Bank,
    "fg_gpu_state": GpuState,
    "fg_gpu": GpuRecord,
    "fg_event": Event,
    "fg_ring": Ring,
    "fg_rule": Rule,
    "fg_action": Action,
    "fg_plan": Plan,
    "fg_faults": Faults,
    "fg_segment": Header,
}


def record_at(gpu: int) -> int:
    """Where the record of a GPU begins in a segment."""
    return ctypes.sizeof(Header) + gpu * ctypes.sizeof(GpuRecord)


def banks_at(gpu: int, gpus: int) -> int:
    """``GpuRecord.banks_at`` of a GPU among so many: its two banks come after all records and the banks before."""
    return (gpus - gpu) * ctypes.sizeof(GpuRecord) + gpu * 2 * ctypes.sizeof(Bank)


def segment_bytes(gpus: int) -> int:
    """The size of a segment of so many GPUs."""
    return record_at(gpus) + gpus * 2 * ctypes.sizeof(Bank)


def entries() -> dict[str, tuple[int, int]]:
    """Offset and size of every struct and member, by their names in C: ``fg_thermal.gpu_c``."""
    found = {}
    for name, struct in STRUCTS.items():
        found[name] = (0, ctypes.sizeof(struct))
        for member, *_ in struct._fields_:
            field = getattr(struct, member)
            found[f"{name}.{member}"] = (field.offset, field.size)
    return found
