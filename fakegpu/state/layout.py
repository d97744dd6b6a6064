"""Python's view of the segment file: the structs of the fake library as ctypes structures.

Written by tools/generate/layout.py from state.h and layout.h in native/core; do not edit. Code that loads the library
compares every offset and size with those that it was compiled with, and the library refuses segments of another
version.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Final

_i32, _u8, _u16 = ctypes.c_int32, ctypes.c_uint8, ctypes.c_uint16
_u32, _u64 = ctypes.c_uint32, ctypes.c_uint64

CLOCK_DOMAINS: Final = 4


class Fault(ctypes.Structure):
    """``fg_fault``: Faults that last, and what the GPU showed before them."""

    _fields_ = [
        ("is_lost", _u32),
        ("last_xid", _u32),
        ("xid_count", _u64),
        ("supported_events", _u64),
        ("is_unplugged", _u32),  # hidden from processes that initialise NVML from now on
        ("is_throttled", _u32),  # the board is too hot; what it showed before is stored below
        ("cool_gpu_c", _u32),
        ("cool_memory_c", _u32),
        ("cool_mhz", _u32 * CLOCK_DOMAINS),
        ("cool_event_reasons", _u64),
        ("links_down", _u32),  # mask of the links that a fault took down
        ("padding", _u32),
    ]


class Identity(ctypes.Structure):
    """``fg_identity``: Texts and numbers printed on the board."""

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
    """``fg_pci``: The address on the bus, and the link to the host."""

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
    """``fg_memory``: Device memory and its BAR1 window."""

    _fields_ = [
        ("total_bytes", _u64),
        ("reserved_bytes", _u64),
        ("used_bytes", _u64),
        ("bar1_total_bytes", _u64),
        ("bar1_used_bytes", _u64),
        ("bus_width_bits", _u32),
        ("padding", _u32),
    ]


THRESHOLDS: Final = 8


class Thermal(ctypes.Structure):
    """``fg_thermal``: Temperatures and their thresholds."""

    _fields_ = [
        ("gpu_c", _u32),
        ("memory_c", _u32),
        ("has_memory_sensor", _u32),
        ("padding", _u32),
        ("threshold_c", _i32 * THRESHOLDS),  # by nvmlTemperatureThresholds_t; negative: the board has none
    ]


FANS_MAX: Final = 4


class Fans(ctypes.Structure):
    """``fg_fans``: Fans of the board."""

    _fields_ = [
        ("count", _u32),  # zero: passive cooling
        ("min_percent", _u32),
        ("max_percent", _u32),
        ("max_rpm", _u32),
        ("percent", _u32 * FANS_MAX),
        ("target_percent", _u32 * FANS_MAX),
        ("is_manual", _u32 * FANS_MAX),
    ]


class Power(ctypes.Structure):
    """``fg_power``: Power draw, its limits and the energy counter."""

    _fields_ = [
        ("usage_mw", _u32),
        ("limit_mw", _u32),
        ("default_limit_mw", _u32),
        ("limit_min_mw", _u32),
        ("limit_max_mw", _u32),
        ("memory_usage_mw", _u32),  # zero: the board does not measure it
        ("energy_mj", _u64),  # drawn until energy_at_ns; what is drawn since is added by readers
        ("energy_at_ns", _u64),  # CLOCK_MONOTONIC
    ]


class ModulePower(ctypes.Structure):
    """``fg_module_power``: Power of the module of GPU and CPU to which the board belongs.

    All zeros: it belongs to none.
    """

    _fields_ = [
        ("usage_mw", _u32),  # while the GPU draws what is set for it
        ("limit_mw", _u32),
        ("default_limit_mw", _u32),
        ("limit_min_mw", _u32),
        ("limit_max_mw", _u32),
        ("padding", _u32),
    ]


MEMORY_CLOCKS_MAX: Final = 8


class Clocks(ctypes.Structure):
    """``fg_clocks``: Clocks, what holds them down, and performance states."""

    _fields_ = [
        ("current_mhz", _u32 * CLOCK_DOMAINS),  # by nvmlClockType_t, as the next three
        ("maximum_mhz", _u32 * CLOCK_DOMAINS),
        ("application_mhz", _u32 * CLOCK_DOMAINS),  # zero: the board has no applications clocks, as with the next
        ("default_application_mhz", _u32 * CLOCK_DOMAINS),
        ("locked_graphics_mhz", _u32 * 2),  # lowest and highest; zeros: not locked
        ("locked_memory_mhz", _u32 * 2),
        ("memory_mhz", _u32 * MEMORY_CLOCKS_MAX),  # supported, highest first, ended by zero
        ("graphics_max_mhz", _u32 * MEMORY_CLOCKS_MAX),  # highest graphics clock at each of them
        ("graphics_min_mhz", _u32),
        ("graphics_step_khz", _u32),  # some boards step by 7.5 MHz; NVML rounds down
        ("performance_state", _u32),
        ("performance_states", _u32),  # mask of supported states
        ("offset_mhz", _i32 * 2),  # of graphics and memory clocks over the curve of the board
        ("offset_max_mhz", _i32 * 2),  # either way; zero: the board has no offsets
        ("anyone_sets_applications_clocks", _u32),
        ("padding", _u32),
        ("event_reasons", _u64),
        ("supported_event_reasons", _u64),
    ]


class Utilization(ctypes.Structure):
    """``fg_utilization``: How busy the engines are."""

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


ECC_LOCATIONS: Final = 8


class Ecc(ctypes.Structure):
    """``fg_ecc``: ECC mode and counters of memory errors."""

    _fields_ = [
        ("is_supported", _u32),
        ("current", _u32),
        ("pending", _u32),
        ("default_mode", _u32),
        # by nvmlMemoryErrorType_t, nvmlEccCounterType_t, nvmlMemoryLocation_t
        ("errors", _u64 * ECC_LOCATIONS * 2 * 2),
    ]


class Remap(ctypes.Structure):
    """``fg_remap``: Rows remapped and pages retired after memory errors."""

    _fields_ = [
        ("is_supported", _u32),  # boards without row remapping retire pages instead
        ("corrected_rows", _u32),
        ("uncorrected_rows", _u32),
        ("is_pending", _u32),
        ("has_failed", _u32),
        ("banks_max", _u32),
        ("banks_high", _u32),
        ("banks_partial", _u32),
        ("banks_low", _u32),
        ("banks_none", _u32),
        ("retired_pages", _u32 * 2),  # by nvmlPageRetirementCause_t
    ]


class Modes(ctypes.Structure):
    """``fg_modes``: Modes that an administrator sets."""

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
        ("virtualization", _u32),  # nvmlGpuVirtualizationMode_t; 1: passed through to a virtual machine
    ]


CPU_WORDS: Final = 16


class Placement(ctypes.Structure):
    """``fg_placement``: Where the board sits.

    Two GPUs share a level when they have equal values there; -1 in numa_node means none.
    """

    _fields_ = [
        ("numa_node", _i32),
        ("board", _u32),
        ("pcie_switch", _u32),
        ("switch_tree", _u32),
        ("host_bridge", _u32),
        ("padding", _u32),
        ("cpu_mask", _u64 * CPU_WORDS),
    ]


LINKS_MAX: Final = 18

# fg_link.remote_type, as nvmlIntNvLinkDeviceType_t
LINK_TO_GPU: Final = 0
LINK_TO_SWITCH: Final = 2


class Link(ctypes.Structure):
    """``fg_link``: One NVLink."""

    _fields_ = [
        ("is_active", _u32),
        ("remote_type", _u32),  # nvmlIntNvLinkDeviceType_t
        ("remote_domain", _u32),
        ("remote_bus", _u32),
        ("remote_device", _u32),
        ("remote_device_id", _u32),
        ("errors", _u64 * 5),  # by nvmlNvLinkErrorCounter_t
    ]


class Nvlink(ctypes.Structure):
    """``fg_nvlink``: What the NVLinks of the board have in common."""

    _fields_ = [
        ("count", _u32),
        ("version", _u32),
        ("low_power_threshold", _u32),
        ("bandwidth_mode", _u32),
    ]


class Fabric(ctypes.Structure):
    """``fg_fabric``: The fabric that NVSwitches form."""

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
    """``fg_firmware``: What the board stores besides the texts of its identity."""

    _fields_ = [
        ("flushed_at_us", _u64),  # last flush of the black box recorder; zero: it has none
        ("flush_us", _u64),
        ("pdi", _u64),
        ("inforom_checksum", _u32),
        ("c2c", _u32),  # one more than nvmlC2cModeInfo's isC2cEnabled; zero: the board does not report it
        ("hostname", ctypes.c_char * 64),
    ]


VIOLATIONS: Final = 12
PCIE_ERRORS: Final = 11


class Counters(ctypes.Structure):
    """``fg_counters``: Counters that only grow, besides those of memory errors and links."""

    _fields_ = [
        ("violation_ns", _u64 * VIOLATIONS),  # by nvmlPerfPolicyType_t
        ("pcie_errors", _u64 * PCIE_ERRORS),  # by the field values from NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS on
        ("pcie_tx_bytes", _u64),
        ("pcie_rx_bytes", _u64),
        ("nvlink_tx_kib", _u64),
        ("nvlink_rx_kib", _u64),
    ]


MIG_PROFILES: Final = 18
GPU_INSTANCES: Final = 16
COMPUTE_INSTANCES: Final = 8

# In place of the id of an instance: none, or the whole GPU.
NO_INSTANCE: Final = (1 << 32) - 1


class MigProfile(ctypes.Structure):
    """``fg_mig_profile``: One GPU instance profile of the model."""

    _fields_ = [
        ("name", ctypes.c_char * 24),  # "1g.10gb"
        ("is_here", _u32),  # false: the model does not have it, and the others are zeros
        ("id", _u32),
        ("slices", _u32),  # of compute; the size of a placement counts slices of memory
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
        ("starts", _u32),  # mask of the memory slices at which an instance may start
    ]


class GpuInstance(ctypes.Structure):
    """``fg_gpu_instance``: One GPU instance."""

    _fields_ = [
        ("is_here", _u32),
        ("profile", _u32),  # NVML_GPU_INSTANCE_PROFILE_*
        ("start", _u32),
        ("padding", _u32),
        ("used_bytes", _u64),
    ]


class ComputeInstance(ctypes.Structure):
    """``fg_compute_instance``: One compute instance, which is a MIG device."""

    _fields_ = [
        ("is_here", _u32),
        ("gpu_instance", _u32),
        ("id", _u32),
        ("profile", _u32),  # NVML_COMPUTE_INSTANCE_PROFILE_*
        ("start", _u32),  # slice of compute within the GPU instance
        ("mode", _u32),  # nvmlComputeMode_t
    ]


class Mig(ctypes.Structure):
    """``fg_mig``: How the GPU can be partitioned, and how it is."""

    _fields_ = [
        ("memory_slices", _u32),
        ("compute_slices", _u32),
        ("needs_reset", _u32),  # a change of the mode takes effect at a reset, not at once
        ("slice_multiprocessors", _u32),
        ("profiles", MigProfile * MIG_PROFILES),  # by NVML_GPU_INSTANCE_PROFILE_*
        ("gpu_instances", GpuInstance * GPU_INSTANCES),  # by id
        ("compute_instances", ComputeInstance * COMPUTE_INSTANCES),
    ]


PROCESSES_MAX: Final = 32

# Bits of fg_process.kind
PROCESS_COMPUTE: Final = 0x1
PROCESS_GRAPHICS: Final = 0x2
PROCESS_MPS: Final = 0x4


class Process(ctypes.Structure):
    """``fg_process``: One process on the GPU.

    It counts while /proc has a process with this number and start, so that one that ends needs nobody to remove it.
    """

    _fields_ = [
        ("pid", _u32),  # zero: a free entry
        ("kind", _u32),  # PROCESS_*
        ("start_ticks", _u64),  # field 22 of /proc/<pid>/stat
        ("used_bytes", _u64),
        ("most_bytes", _u64),  # the most that it has held so far
        ("gpu_instance", _u32),  # or NO_INSTANCE, as the next
        ("compute_instance", _u32),
    ]


class Processes(ctypes.Structure):
    """``fg_processes``: The processes on the GPU."""

    _fields_ = [
        ("count", _u32),  # entries in use come first
        ("padding", _u32),
        ("entries", Process * PROCESSES_MAX),
    ]


ACCOUNTS_MAX: Final = 32


class Account(ctypes.Structure):
    """``fg_account``: What accounting records of a process that has ended."""

    _fields_ = [
        ("pid", _u32),
        ("gpu_percent", _u16),  # mean from its start to its end, as the next
        ("memory_percent", _u16),
        ("start_us", _u64),  # CLOCK_REALTIME
        ("time_ms", _u64),
        ("most_bytes", _u64),
    ]


class Accounts(ctypes.Structure):
    """``fg_accounts``: The last processes that have ended."""

    _fields_ = [
        ("count", _u32),  # ever written; the last ACCOUNTS_MAX of them are kept, in a ring
        ("padding", _u32),
        ("entries", Account * ACCOUNTS_MAX),
    ]


# Bits of fg_load.topics
LIVE_MEMORY: Final = 0x1
LIVE_THERMAL: Final = 0x2
LIVE_FANS: Final = 0x4
LIVE_POWER: Final = 0x8
LIVE_CLOCKS: Final = 0x10
LIVE_UTILIZATION: Final = 0x20
LIVE_PCI: Final = 0x40
LIVE_ALL: Final = 0x7F  # of the above, which are all that a load can move
LIVE_PROCESSES: Final = 0x80  # memory also counts the processes


class Load(ctypes.Structure):
    """``fg_load``: The load of the GPU: figures over time, from which a getter takes those of the moment."""

    _fields_ = [
        ("topics", _u32),  # mask of LIVE_*: whose figures follow the frames
        ("bank", _u32),  # which of the two arrays of frames is in force
        ("count", _u32),  # frames
        ("loop_to", _u32),  # the frame to go back to after the last; as large as count: the last one stays
        ("started_ns", _u64),  # CLOCK_MONOTONIC
    ]


class GpuState(ctypes.Structure):
    """``fg_gpu_state``: Everything that NVML reports of one GPU."""

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
        ("nvlink", Nvlink),
        ("links", Link * LINKS_MAX),
        ("fabric", Fabric),
        ("firmware", Firmware),
        ("counters", Counters),
        ("mig", Mig),
        ("processes", Processes),
        ("accounts", Accounts),
        ("load", Load),
    ]


FRAMES_MAX: Final = 256


class Frame(ctypes.Structure):
    """``fg_frame``: The figures of one moment of a load; between two frames they are interpolated."""

    _fields_ = [
        ("energy_mj", _u64),  # since the load began
        ("memory_used_bytes", _u64),
        ("time_ms", _u32),  # since the load began; the first frame's is zero
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
    """``fg_bank``: The frames of one load."""

    _fields_ = [
        ("frames", Frame * FRAMES_MAX),
    ]


GPU_BYTES: Final = 16384
GPU_TAIL: Final = GPU_BYTES - 64 - 2 * ctypes.sizeof(GpuState)


class GpuRecord(ctypes.Structure):
    """``fg_gpu``: One GPU: two copies of its state, of which `sequence` names the one in force."""

    _fields_ = [
        ("sequence", _u32),
        ("live_topics", _u32),  # topics of the load in force, for a quick look
        ("banks_at", _u64),  # where its two banks begin, in bytes from here
        ("padding", _u32 * 12),
        ("states", GpuState * 2),
        ("tail", _u8 * GPU_TAIL),
    ]


EVENTS_MAX: Final = 1024

# Not an NVML event type: wakes a wait with NVML_ERROR_GPU_IS_LOST.
EVENT_GPU_LOST: Final = 1 << 63


class Event(ctypes.Structure):
    """``fg_event``: One event."""

    _fields_ = [
        ("ticket", _u64),
        ("type", _u64),  # one nvmlEventType bit, or EVENT_GPU_LOST
        ("data", _u64),
        ("gpu", _u32),
        ("gpu_instance", _u32),
        ("compute_instance", _u32),
        ("padding", _u32),
        ("timestamp_us", _u64),
        ("tail", _u64 * 2),
    ]


class Ring(ctypes.Structure):
    """``fg_ring``: The events of the machine, the last EVENTS_MAX of them."""

    _fields_ = [
        ("head", _u64),  # events ever posted
        ("wake", _u32),  # futex word: changes after every post
        ("padding", _u32 * 13),
        ("events", Event * EVENTS_MAX),
    ]


RULES_MAX: Final = 32
DELAY_POINTS: Final = 8

# fg_rule.gpu: all GPUs, and functions of the machine
NO_GPU: Final = (1 << 32) - 1

# A time that never comes, and a number of times that never ends
FOR_EVER: Final = (1 << 64) - 1


class Rule(ctypes.Structure):
    """``fg_rule``: What happens to calls of functions; read without a lock, valid while `number` stays what it was."""

    _fields_ = [
        ("number", _u64),  # of the rule since the machine was made; zero: the slot is free
        ("from_us", _u64),  # CLOCK_REALTIME, as all times below
        ("until_us", _u64),
        ("seed", _u64),
        ("left", _u64),  # times it still applies, or FOR_EVER
        ("function", ctypes.c_char * 64),  # a name, or its beginning and a star
        ("gpu", _u32),  # index, or NO_GPU for all of them and for functions of the machine
        ("error", _u32),  # nvmlReturn_t to answer; zero: the call is only slow
        ("every", _u32),  # every n-th call of a process; zero: by chance
        ("chance", _u32),  # of 2^32
        ("delay_count", _u32),
        ("padding", _u32),
        ("delay_share", _u32 * DELAY_POINTS),  # of 2^32: this share of calls takes at most delay_us,
        ("delay_us", _u32 * DELAY_POINTS),  # rising; interpolated between two points
    ]


class ActionKind(IntEnum):
    """``fg_action_kind``: Kinds of actions; a plan in the segment holds the number."""

    HEAL = 1  # ends every fault below that lasts
    XID = 2  # argument: the number
    LOSE = 3  # argument: XID that reports it; zero: waits end with NVML_ERROR_GPU_IS_LOST
    UNPLUG = 4  # lost, and not counted by processes that initialise NVML from now on
    PLUG = 5  # ends UNPLUG
    CORRECTED_ECC = 6  # argument: errors of the memory
    UNCORRECTED_ECC = 7  # argument: as before
    RETIRE = 8  # argument: rows to remap or pages to retire for uncorrected errors
    THROTTLE = 9  # hotter than the slowdown threshold
    COOL = 10  # ends THROTTLE
    LINKS_DOWN = 11  # argument: mask of links
    LINKS_UP = 12  # argument: as before
    EVENT = 13  # argument: one NVML event type


class Action(ctypes.Structure):
    """``fg_action``: One thing that happens to a GPU."""

    _fields_ = [
        ("kind", _u32),  # ACTION_*
        ("gpu", _u32),
        ("gpu_instance", _u32),
        ("compute_instance", _u32),
        ("argument", _u64),
    ]


PLANS_MAX: Final = 64


class Plan(ctypes.Structure):
    """``fg_plan``: An action that is due at some time; changed by writers only."""

    _fields_ = [
        ("number", _u64),  # as in a rule
        ("due_us", _u64),
        ("period_us", _u64),  # zero: once
        ("left", _u64),  # times it is still due, or FOR_EVER
        ("action", Action),
    ]


class Faults(ctypes.Structure):
    """``fg_faults``: The rules and plans of the machine."""

    _fields_ = [
        ("last_number", _u64),  # of a rule or a plan
        ("due_us", _u64),  # when the next plan is due
        ("rules", Rule * RULES_MAX),
        ("plans", Plan * PLANS_MAX),
        ("tail", _u64 * 6),
    ]


MAGIC: Final = 0x555047454B414646  # "FFAKEGPU" read as bytes
VERSION: Final = 6
GPUS_MAX: Final = 1024

# fg_segment.fault_flags
FAULT_RULES: Final = 1  # some call is slow or fails
FAULT_PLANS: Final = 2  # something is due at some time
FAULT_WAIT: Final = 4  # waits for events are stuck


class Header(ctypes.Structure):
    """``fg_segment``: The segment; the array of GPUs ends it."""

    _fields_ = [
        ("magic", _u64),
        ("version", _u32),
        ("gpu_count", _u32),
        ("size_bytes", _u64),
        ("cuda_driver_version", _i32),
        ("fault_flags", _u32),  # FAULT_*; zero: calls need no further look
        ("driver_version", ctypes.c_char * 80),
        ("nvml_version", ctypes.c_char * 80),
        ("driver_branch", ctypes.c_char * 80),
        ("loaded_at_us", _u64),  # when the driver was loaded: the machine made
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
    "fg_nvlink": Nvlink,
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
    "fg_gpu_state": GpuState,
    "fg_frame": Frame,
    "fg_bank": Bank,
    "fg_gpu": GpuRecord,
    "fg_event": Event,
    "fg_ring": Ring,
    "fg_rule": Rule,
    "fg_action": Action,
    "fg_plan": Plan,
    "fg_faults": Faults,
    "fg_segment": Header,
}
