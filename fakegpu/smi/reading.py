"""What the views read from NVML: the chosen GPUs, their MIG devices and processes, and answers that may be missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pynvml

Tree = Sequence[tuple[str, "str | Tree"]]
"""Lines in the order of the report. A label may begin with blanks: its line is set in without a heading above it."""


NOT_AVAILABLE: Final = "N/A"
MIB: Final = 1 << 20
_ALL_BITS_32: Final = (1 << 32) - 1


def ask(function: Callable[..., Any], *arguments: object, **keywords: object) -> Any:
    """What an NVML function answers; None where the GPU, the driver or the library does not have it.

    Raises:
        pynvml.NVMLError: the GPU is lost, or NVML is not initialised.
    """
    try:
        return function(*arguments, **keywords)
    except pynvml.NVMLError as error:
        if error.value in {pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_UNINITIALIZED}:
            raise
        return None


def field_value(handle: object, field: int, scope: int = 0) -> int | None:
    """One whole number of ``nvmlDeviceGetFieldValues``."""
    answers = ask(pynvml.nvmlDeviceGetFieldValues, handle, [(field, scope)])
    if answers is None or answers[0].nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    kind, value = answers[0].valueType, answers[0].value
    if kind == pynvml.NVML_VALUE_TYPE_SIGNED_INT:
        return int(value.siVal)
    return int(value.uiVal if kind == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT else value.ullVal)


def text(value: object, unit: str = "") -> str:
    """A value with its unit, ``N/A`` for None."""
    if value is None:
        return NOT_AVAILABLE
    word = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return f"{word} {unit}" if unit else word


def switch(value: object, words: tuple[str, str] = ("Disabled", "Enabled")) -> str:
    """The word for off or on, ``N/A`` for None."""
    return NOT_AVAILABLE if value is None else words[bool(value)]


def mib(size_bytes: int | None) -> str:
    """A size in whole MiB."""
    return NOT_AVAILABLE if size_bytes is None else f"{size_bytes // MIB} MiB"


def watts(milliwatts: int | None) -> str:
    """A power with two digits after the point."""
    return NOT_AVAILABLE if milliwatts is None else f"{milliwatts / 1000:.2f} W"


def bus_id(handle: object) -> str:
    """The PCI address, ``00000000:1B:00.0``."""
    return str(pynvml.nvmlDeviceGetPciInfo(handle).busId)


def performance_state(handle: object) -> str:
    """``P0`` to ``P15``."""
    state = ask(pynvml.nvmlDeviceGetPerformanceState, handle)
    return NOT_AVAILABLE if state is None or state > pynvml.NVML_PSTATE_15 else f"P{state}"


def cuda_version() -> str:
    """The driver's CUDA version, as in ``13.0``."""
    version = ask(pynvml.nvmlSystemGetCudaDriverVersion)
    return NOT_AVAILABLE if version is None else f"{version // 1000}.{version % 1000 // 10}"


COMPUTE_MODES: Final = ("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")
SHORT_COMPUTE_MODES: Final = ("Default", "E. Thread", "Prohibited", "E. Process")


def compute_mode(handle: object, names: tuple[str, ...] = COMPUTE_MODES) -> str:
    """The name of the compute mode."""
    mode = ask(pynvml.nvmlDeviceGetComputeMode, handle)
    return NOT_AVAILABLE if mode is None or mode >= len(names) else names[mode]


Selected = Sequence[tuple[int, Any]]
"""Index and NVML handle of each GPU to show."""


class NotFoundError(Exception):
    """A GPU, part or profile that the command line names does not exist."""


def select(wanted: str | None) -> Selected:
    """The GPUs that ``wanted`` names, all for None: indices, UUIDs, serial numbers or PCI addresses, with commas.

    Raises:
        NotFoundError: no GPU has this name.
        pynvml.NVMLError: NVML does not answer.
    """
    if wanted is None:
        return [(index, _by_index(index)) for index in range(pynvml.nvmlDeviceGetCount())]
    return [_one(name.strip()) for name in wanted.split(",")]


def _by_index(index: int) -> Any:
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def _one(name: str) -> tuple[int, Any]:
    finders = [
        pynvml.nvmlDeviceGetHandleByUUID,
        pynvml.nvmlDeviceGetHandleByPciBusId,
        pynvml.nvmlDeviceGetHandleBySerial,
    ]
    if re.fullmatch("[0-9]{1,9}", name) and int(name) < pynvml.nvmlDeviceGetCount():
        return int(name), _by_index(int(name))
    for find in finders:
        try:
            handle = find(name)
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
                raise
        else:
            return pynvml.nvmlDeviceGetIndex(handle), handle
    raise NotFoundError(name)


@dataclass(frozen=True, slots=True)
class MigDevice:
    """One MIG device: its place among those of its GPU, its instances, and its profile's short name (``1g.10gb``)."""

    index: int
    handle: Any
    uuid: str
    profile: str
    gpu_instance: int
    compute_instance: int


def mig_devices(handle: Any) -> list[MigDevice]:
    """The MIG devices of a GPU, none where MIG is off or unknown."""
    modes = ask(pynvml.nvmlDeviceGetMigMode, handle)
    if modes is None or not modes[0]:
        return []
    devices = []
    for index in range(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        device = ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        if device is not None:
            devices.append(_describe(index, device))
    return devices


def uncorrected_errors(device: MigDevice) -> int | None:
    """Volatile uncorrected errors in the device's part of the SRAM."""
    where = (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC, pynvml.NVML_MEMORY_LOCATION_SRAM)
    count: int | None = ask(pynvml.nvmlDeviceGetMemoryErrorCounter, device.handle, *where)
    return count


def _describe(index: int, device: Any) -> MigDevice:
    # A MIG device's name ends in "MIG" and its profile.
    return MigDevice(
        index=index,
        handle=device,
        uuid=pynvml.nvmlDeviceGetUUID(device),
        profile=pynvml.nvmlDeviceGetName(device).rpartition("MIG ")[2],
        gpu_instance=pynvml.nvmlDeviceGetGpuInstanceId(device),
        compute_instance=pynvml.nvmlDeviceGetComputeInstanceId(device),
    )


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
                name=_process_name(pid),
                used_bytes=info.usedGpuMemory,
                gpu_instance=_instance(info.gpuInstanceId),
                compute_instance=_instance(info.computeInstanceId),
            )
        )
    return found


def _process_name(pid: int) -> str:
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
    return NOT_AVAILABLE if number is None or number == _ALL_BITS_32 else str(number)
