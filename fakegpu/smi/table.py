"""``nvidia-smi``: the table of GPUs and the table of processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import pynvml

from . import mig_table
from .processes import Process, processes_of
from .reading import MIB, NOT_AVAILABLE, SHORT_COMPUTE_MODES, ask, compute_mode, cuda_version, performance_state
from .selection import Selected

_WIDTH: Final = 87
_EDGE: Final = f"+{'-' * _WIDTH}+"
_RULE: Final = "+-----------------------------------------+----------------------+----------------------+"
_NAME_WIDTH: Final = 27
_COMMAND_WIDTH: Final = 38


def lines(gpus: Selected) -> Iterator[str]:
    """The lines of both tables."""
    driver = pynvml.nvmlSystemGetDriverVersion()
    yield f"{time.ctime()}       "
    yield _EDGE
    yield f"| NVIDIA-SMI {driver:<23}Driver Version: {driver:<12} CUDA Version: {cuda_version():<9}|"
    yield f"|{_RULE[1:]}"
    yield "| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |"
    yield "| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |"
    yield "|                                         |                      |               MIG M. |"
    yield "|=========================================+======================+======================|"
    for index, handle in gpus:
        yield from _gpu_rows(index, handle)
        yield _RULE
    yield from mig_table.lines(gpus)
    yield " " * (_WIDTH + 2)
    yield from _process_table(gpus)


def _gpu_rows(index: int, handle: Any) -> Iterator[str]:
    name = pynvml.nvmlDeviceGetName(handle)
    short = _short(name, _NAME_WIDTH)
    persistence = _on_off(ask(pynvml.nvmlDeviceGetPersistenceMode, handle))
    display = _on_off(ask(pynvml.nvmlDeviceGetDisplayActive, handle))
    address = pynvml.nvmlDeviceGetPciInfo(handle).busId
    yield f"|{index:>4}  {short:<31}{persistence:<3} | {address} {display:<3} | {_uncorrected(handle):>20} |"
    used = _memory(handle)
    state, mode = performance_state(handle), compute_mode(handle, SHORT_COMPUTE_MODES)
    temperature = ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
    heat = NOT_AVAILABLE if temperature is None else f"{temperature}C"
    busy = _utilization(handle)
    yield (
        f"| {_fan(handle):>3}  {heat:>4}    {state:<14}{_power(handle, pynvml.nvmlDeviceGetPowerUsage):>5} /"
        f" {_short(_power(handle, pynvml.nvmlDeviceGetEnforcedPowerLimit), 4):>4} | {used:>20} | {busy:>7} {mode:>12} |"
    )
    yield f"| {'':39} | {'':20} | {_mig_mode(handle):>20} |"


def _on_off(value: int | None) -> str:
    return NOT_AVAILABLE if value is None else ("Off", "On")[value]


def _fan(handle: Any) -> str:
    speed = ask(pynvml.nvmlDeviceGetFanSpeed, handle)
    return NOT_AVAILABLE if speed is None else f"{speed}%"


def _power(handle: Any, function: Any) -> str:
    milliwatts = ask(function, handle)
    return NOT_AVAILABLE if milliwatts is None else f"{milliwatts // 1000}W"


def _memory(handle: Any) -> str:
    memory = ask(pynvml.nvmlDeviceGetMemoryInfo, handle, version=pynvml.nvmlMemory_v2)
    if memory is None:
        return NOT_AVAILABLE
    return f"{f'{memory.used // MIB}MiB':>9} / {_short(f'{memory.total // MIB}MiB', 8):>8}"


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _utilization(handle: Any) -> str:
    rates = ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
    return NOT_AVAILABLE if rates is None else f"{rates.gpu}%"


def _uncorrected(handle: Any) -> str:
    mode = ask(pynvml.nvmlDeviceGetEccMode, handle)
    if mode is None:
        return NOT_AVAILABLE
    if not mode[0]:
        return "Off"
    if _mig_mode(handle).startswith("Enabled"):
        return "On"
    count = ask(
        pynvml.nvmlDeviceGetTotalEccErrors, handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    )
    return NOT_AVAILABLE if count is None else str(count)


def _mig_mode(handle: Any) -> str:
    modes = ask(pynvml.nvmlDeviceGetMigMode, handle)
    if modes is None:
        return NOT_AVAILABLE
    current, pending = modes
    return ("Disabled", "Enabled")[current] + ("" if current == pending else "*")


def _process_table(gpus: Selected) -> Iterator[str]:
    yield _EDGE
    for text in (
        " Processes:",
        "  GPU   GI   CI        PID   Type   Process name                            GPU Memory ",
        "        ID   ID                                                             Usage      ",
    ):
        yield f"|{text:<{_WIDTH}}|"
    yield f"|{'=' * _WIDTH}|"
    rows = [
        f"|{_place(index, process)}{process.kind:>7}"
        f"   {_cut(process.name):<{_COMMAND_WIDTH}} {_used(process.used_bytes):>11} |"
        for index, handle in gpus
        for process in processes_of(handle)
    ]
    yield from rows or [f"|{'  No running processes found':<{_WIDTH}}|"]
    yield _EDGE


def _place(gpu: int, process: Process) -> str:
    instances = process.gpu_instance, process.compute_instance
    gi_width, pid_width = (6, 10) if NOT_AVAILABLE in instances else (5, 11)
    return f"{gpu:>5}{instances[0]:>{gi_width}}{instances[1]:>5}{process.pid:>{pid_width}}"


def _cut(name: str) -> str:
    return name if len(name) <= _COMMAND_WIDTH else f"...{name[3 - _COMMAND_WIDTH :]}"


def _used(size_bytes: int | None) -> str:
    return NOT_AVAILABLE if size_bytes is None else f"{size_bytes // MIB}MiB"
