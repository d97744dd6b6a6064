"""The processes on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml

from .device_list import mig_devices
from .reading import ALL_BITS_32, NOT_AVAILABLE, ask


@dataclass(frozen=True, slots=True)
class Process:
    """One process; ``kind`` is ``C``, ``G``, ``C+G``, or ``M+C`` under MPS, and instances are ``N/A`` without MIG."""

    pid: int
    kind: str
    name: str
    used_bytes: int | None
    gpu_instance: str
    compute_instance: str


def processes_of(handle: object) -> list[Process]:
    """The processes on a GPU or its MIG devices, each once, though it computes and draws: by device and number."""
    return [process for place in _places(handle) for process in _on(place)]


def _places(handle: object) -> list[object]:
    return [device.handle for device in mig_devices(handle)] or [handle]


def _on(handle: object) -> list[Process]:
    compute = _by_pid(ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle))
    graphics = _by_pid(ask(pynvml.nvmlDeviceGetGraphicsRunningProcesses, handle))
    mps = _by_pid(ask(pynvml.nvmlDeviceGetMPSComputeRunningProcesses, handle))
    found = []
    for pid in sorted(compute.keys() | graphics.keys() | mps.keys()):
        letters = (("M", mps), ("C", compute.keys() | mps.keys()), ("G", graphics))
        kind = "+".join(letter for letter, pids in letters if pid in pids)
        info = compute.get(pid) or mps.get(pid) or graphics[pid]
        found.append(
            Process(
                pid=pid,
                kind=kind,
                name=process_name(pid),
                used_bytes=info.usedGpuMemory,
                gpu_instance=_instance(info.gpuInstanceId),
                compute_instance=_instance(info.computeInstanceId),
            )
        )
    return found


def process_name(pid: int) -> str:
    """The command of a process as NVML reports it, else as /proc does."""
    name = ask(pynvml.nvmlSystemGetProcessName, pid)
    if name is not None:
        return str(name)
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "[Not Found]"


def _by_pid(infos: list[Any] | None) -> dict[int, Any]:
    return {info.pid: info for info in infos or []}


def _instance(number: int | None) -> str:
    return NOT_AVAILABLE if number is None or number == ALL_BITS_32 else str(number)
