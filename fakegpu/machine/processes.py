"""Processes that hold memory of a GPU, entered by number and start, so that one that ends is off by itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import InputError
from ..state import layout

if TYPE_CHECKING:
    from ..mig.mig_parts import MigDevice

KINDS: Final = {
    "compute": layout.PROCESS_COMPUTE,
    "graphics": layout.PROCESS_GRAPHICS,
    "both": layout.PROCESS_COMPUTE | layout.PROCESS_GRAPHICS,
    "mps": layout.PROCESS_MPS,
}
"""Kinds of work by name."""

_START_FIELD: Final = 19


def enter(state: layout.GpuState, pid: int, memory_bytes: int, kind: str, device: MigDevice | None = None) -> None:
    """Enters a process into ``state``, in place of what it had there.

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
