"""What of a GPU can be set while processes look at it: figures, with names, types, ranges, and processes.

Processes hold memory of a GPU. They are entered by number and start, so that one that ends is off by itself.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import InputError
from ..state import layout
from ..state.event_type import EventType

if TYPE_CHECKING:
    from ..state.partition import MigDevice


_SIZES: Final = {"": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_SIZE: Final = re.compile(r"([0-9]{1,40})\s*(|[KMG]iB)", re.IGNORECASE | re.ASCII)
_WHOLE: Final = re.compile(r"-?[0-9]{1,40}")


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of ``fakegpu set``.

    Attributes:
        meaning: what the value says, with its unit.
        low: least value.
        high: greatest value.
        path: member of the state: topic and member, with a position for arrays.
        is_size: whether the value may end in KiB, MiB or GiB.
        is_uuid: whether the value is a UUID, whose 16 bytes the member holds.
        event: posted to those that registered for it when the value changes (``PSTATE``) or grows (ECC counters).
    """

    meaning: str
    low: int
    high: int
    path: tuple[str | int, ...]
    is_size: bool = False
    is_uuid: bool = False
    event: EventType | None = None


_U32: Final = (1 << 32) - 1
_U63: Final = (1 << 63) - 1
_U128: Final = (1 << 128) - 1
_DRAM: Final = 2

SETTINGS: Final[dict[str, Setting]] = {
    "clock_graphics": Setting("MHz", 0, 10_000, ("clocks", "current_mhz", 0)),
    "clock_memory": Setting("MHz", 0, 20_000, ("clocks", "current_mhz", 2)),
    "clock_sm": Setting("MHz", 0, 10_000, ("clocks", "current_mhz", 1)),
    "clock_video": Setting("MHz", 0, 10_000, ("clocks", "current_mhz", 3)),
    "clocks_event_reasons": Setting("mask of the reasons that limit clocks", 0, _U32, ("clocks", "event_reasons")),
    "compute_mode": Setting("0 default, 2 prohibited, 3 exclusive process", 0, 3, ("modes", "compute")),
    "ecc_corrected": Setting(
        "volatile single-bit errors of the memory",
        0,
        _U63,
        ("ecc", "errors", 0, 0, _DRAM),
        event=EventType.SINGLE_BIT_ECC,
    ),
    "ecc_uncorrected": Setting(
        "volatile double-bit errors of the memory",
        0,
        _U63,
        ("ecc", "errors", 1, 0, _DRAM),
        event=EventType.DOUBLE_BIT_ECC,
    ),
    "energy": Setting("mJ since the driver was loaded", 0, _U63, ("power", "energy_mj")),
    "event_types": Setting(
        "mask of the NVML event types that can be registered", 0, 0xFFFF, ("fault", "supported_events")
    ),
    "fabric_clique": Setting("clique id of the NVLink fabric", 0, _U32, ("fabric", "clique_id")),
    "fabric_cluster": Setting(
        "UUID of the NVLink fabric's cluster", 0, _U128, ("fabric", "cluster_uuid"), is_uuid=True
    ),
    "memory_temperature": Setting("degrees Celsius", 0, 200, ("thermal", "memory_c")),
    "memory_used": Setting("bytes, or with KiB, MiB, GiB", 0, _U63, ("memory", "used_bytes"), is_size=True),
    "module_power_limit": Setting("mW, of the module of GPU and CPU", 0, 10_000_000, ("module_power", "limit_mw")),
    "module_power_usage": Setting("mW, of the module of GPU and CPU", 0, 10_000_000, ("module_power", "usage_mw")),
    "numa_node": Setting("node, -1 for none", -1, 1023, ("placement", "numa_node")),
    "pcie_generation": Setting("current PCIe generation", 1, 6, ("pci", "link_generation")),
    "pcie_replays": Setting("replay counter", 0, _U32, ("pci", "replay_count")),
    "pcie_width": Setting("current PCIe lanes", 1, 16, ("pci", "link_width")),
    "performance_state": Setting("P-state", 0, 15, ("clocks", "performance_state"), event=EventType.PSTATE),
    "persistence_mode": Setting("0 or 1", 0, 1, ("modes", "persistence")),
    "power_limit": Setting("mW", 0, 10_000_000, ("power", "limit_mw")),
    "power_usage": Setting("mW", 0, 10_000_000, ("power", "usage_mw")),
    "remapped_rows_uncorrected": Setting("rows", 0, _U32, ("remap", "uncorrected_rows")),
    "temperature": Setting("degrees Celsius", 0, 200, ("thermal", "gpu_c")),
    "utilization_decoder": Setting("percent", 0, 100, ("utilization", "decoder_percent")),
    "utilization_encoder": Setting("percent", 0, 100, ("utilization", "encoder_percent")),
    "utilization_gpu": Setting("percent", 0, 100, ("utilization", "gpu_percent")),
    "utilization_memory": Setting("percent", 0, 100, ("utilization", "memory_percent")),
}


# What is set stays, also where the GPU works on a load: its topic no longer follows the load.
_LIVE_TOPICS: Final = {
    "memory": layout.LIVE_MEMORY,
    "thermal": layout.LIVE_THERMAL,
    "fans": layout.LIVE_FANS,
    "power": layout.LIVE_POWER,
    "clocks": layout.LIVE_CLOCKS,
    "utilization": layout.LIVE_UTILIZATION,
    "pci": layout.LIVE_PCI,
}


def parse_value(key: str, value: int | str) -> int:
    """The number that ``value`` means for ``key``.

    Raises:
        InputError: no such key, not a number, or out of range; the message names the keys or the range.
    """
    setting = SETTINGS.get(key)
    if setting is None:
        raise InputError(f"no setting '{key}'; there are {', '.join(SETTINGS)}")
    number = value if isinstance(value, int) else _parse_number(key, setting, value)
    if not setting.low <= number <= setting.high:
        raise InputError(f"{key}={value}: out of range, {setting.low} to {setting.high} ({setting.meaning})")
    return number


def parse_size(option: str, text: str) -> int:
    """Bytes, of a text such as ``512MiB``.

    Raises:
        InputError: it means none; the message names the option and what may be written.
    """
    if (size := _size_of(text)) is not None:
        return size
    raise InputError(f"{option} {text}: write a number of bytes, or one with KiB, MiB or GiB, such as 20GiB")


def _size_of(text: str) -> int | None:
    size = _SIZE.fullmatch(text)
    return int(size.group(1)) * _SIZES[size.group(2).upper()] if size else None


def _parse_number(key: str, setting: Setting, text: str) -> int:
    if setting.is_size and (size := _size_of(text)) is not None:
        return size
    if setting.is_uuid:
        try:
            return uuid.UUID(text).int
        except ValueError:
            raise InputError(f"{key}={text}: not a UUID, such as {uuid.UUID(int=1)} ({setting.meaning})") from None
    if not _WHOLE.fullmatch(text):
        raise InputError(f"{key}={text}: not a whole number ({setting.meaning})")
    return int(text)


def apply(state: layout.GpuState, key: str, number: int) -> EventType | None:
    """Change ``state`` in place.

    Returns:
        The event that the change causes, if any.

    Raises:
        InputError: the value does not fit this GPU.
    """
    setting = SETTINGS[key]
    if check := _CHECKS.get(key):
        check(state, number)
    state.load.topics &= ~_LIVE_TOPICS.get(str(setting.path[0]), 0)
    *path, last = setting.path
    holder: object = state
    for step in path:
        holder = holder[step] if isinstance(step, int) else getattr(holder, step)  # type: ignore[index]
    if setting.is_uuid:
        getattr(holder, str(last))[:] = number.to_bytes(16, "big")
        return None
    before: int = holder[last] if isinstance(last, int) else getattr(holder, last)  # type: ignore[index]
    if isinstance(last, int):
        holder[last] = number  # type: ignore[index]
    else:
        setattr(holder, last, number)
    has_happened = number != before if setting.event is EventType.PSTATE else number > before
    return setting.event if has_happened else None


def _check_memory_used(state: layout.GpuState, number: int) -> None:
    free = state.memory.total_bytes - state.memory.reserved_bytes
    if number > free:
        raise InputError(f"memory_used={number}: the GPU has {free} bytes for allocations")


def _check_memory_temperature(state: layout.GpuState, number: int) -> None:
    if not state.thermal.has_memory_sensor:
        raise InputError(f"memory_temperature={number}: {state.identity.name.decode()} has no memory sensor")


def _check_fabric(state: layout.GpuState, _number: int) -> None:
    if not state.fabric.is_supported:
        raise InputError(f"{state.identity.name.decode()} registers with no NVLink fabric")


def _check_module(state: layout.GpuState, _number: int) -> None:
    if not state.module_power.limit_max_mw:
        raise InputError(f"{state.identity.name.decode()} reports no power of a module of GPU and CPU")


_CHECKS: Final[dict[str, Callable[[layout.GpuState, int], None]]] = {
    "fabric_clique": _check_fabric,
    "fabric_cluster": _check_fabric,
    "module_power_limit": _check_module,
    "module_power_usage": _check_module,
    "memory_used": _check_memory_used,
    "memory_temperature": _check_memory_temperature,
}


KINDS: Final = {
    "compute": layout.PROCESS_COMPUTE,
    "graphics": layout.PROCESS_GRAPHICS,
    "both": layout.PROCESS_COMPUTE | layout.PROCESS_GRAPHICS,
    "mps": layout.PROCESS_MPS,
}
"""Kinds of work by name."""

_START_FIELD: Final = 19


def enter(state: layout.GpuState, pid: int, memory_bytes: int, kind: str, device: MigDevice | None = None) -> None:
    """Enter a process into ``state``, in place of what it had there.

    Args:
        state: of the GPU.
        pid: the process.
        memory_bytes: what it holds.
        kind: one of ``KINDS``.
        device: the MIG device that it is on, None for the whole GPU.

    Raises:
        InputError: no such process or kind, or more processes or memory than the GPU has room for.
    """
    start_ticks = start_of(pid)
    if start_ticks is None:
        raise InputError(f"no process {pid}")
    if kind not in KINDS:
        raise InputError(f"no kind of process '{kind}'; there are {', '.join(KINDS)}")
    processes = state.processes
    entered = processes.entries[: processes.count]
    before = next((entry for entry in entered if (entry.pid, entry.start_ticks) == (pid, start_ticks)), None)
    if before is None and processes.count == layout.PROCESSES_MAX:
        raise InputError(f"{layout.PROCESSES_MAX} processes are on the GPU: there is no room for one more")
    whole = state.memory.total_bytes - state.memory.reserved_bytes if device is None else device.memory_bytes
    held = sum(
        entry.used_bytes
        for entry in entered
        if entry is not before and (device is None or entry.gpu_instance == device.gpu_instance)
    )
    free = whole - held
    if memory_bytes > free:
        raise InputError(f"{memory_bytes} bytes for process {pid}: the GPU has {free} bytes left for processes")
    entry = before or processes.entries[processes.count]
    processes.count += before is None
    entry.pid, entry.kind, entry.start_ticks, entry.used_bytes = pid, KINDS[kind], start_ticks, memory_bytes
    entry.most_bytes = memory_bytes if before is None else max(memory_bytes, entry.most_bytes)
    entry.gpu_instance = layout.NO_INSTANCE if device is None else device.gpu_instance
    entry.compute_instance = layout.NO_INSTANCE if device is None else device.compute_instance


def start_of(pid: int) -> int | None:
    """When a process started, in ticks since boot; None when there is none.

    Source: field 22 of /proc/<pid>/stat, proc(5).
    """
    try:
        content = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(content.rpartition(")")[2].split()[_START_FIELD])
