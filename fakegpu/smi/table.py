"""``nvidia-smi`` without options: the tables of GPUs, of MIG devices and of processes; ``-L``: a list of GPUs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pynvml

from .reading import (
    MIB,
    NOT_AVAILABLE,
    SHORT_COMPUTE_MODES,
    MigDevice,
    Process,
    Selected,
    ask,
    compute_mode,
    cuda_version,
    mig_devices,
    performance_state,
    processes_of,
    text,
    uncorrected_errors,
)

_WIDTH: Final = 87
_EDGE: Final = f"+{'-' * _WIDTH}+"
_RULE: Final = "+-----------------------------------------+----------------------+----------------------+"
_MIG_RULE: Final = "+------------------+--------------------------------+-----------+-----------------------+"
_MIG_SHARED_RULE: Final = "+------------------+                                +-----------+-----------------------+"
_NAME_WIDTH: Final = 27
_COMMAND_WIDTH: Final = 38


def lines(gpus: Selected) -> Iterator[str]:
    """Yield the lines of all tables."""
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
    yield from _mig_table(gpus)
    yield " " * (_WIDTH + 2)
    yield from _process_table(gpus)


def list_lines(gpus: Selected) -> Iterator[str]:
    """Yield the lines of ``nvidia-smi -L``: one for each GPU and each MIG device."""
    for index, handle in gpus:
        name, uuid = pynvml.nvmlDeviceGetName(handle), pynvml.nvmlDeviceGetUUID(handle)
        yield f"GPU {index}: {name} (UUID: {uuid})"
        for device in mig_devices(handle):
            yield f"  MIG {device.profile:<11} Device {device.index:>2}: (UUID: {device.uuid})"


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


def _mig_table(gpus: Selected) -> Iterator[str]:
    """Yield the table of MIG devices; nothing where no GPU is in MIG mode."""
    modes = [ask(pynvml.nvmlDeviceGetMigMode, handle) for _, handle in gpus]
    if not any(mode is not None and mode[0] for mode in modes):
        return
    yield ""
    yield _EDGE
    yield f"| {'MIG devices:':<{_WIDTH - 1}}|"
    yield _MIG_RULE
    yield "| GPU  GI  CI  MIG |                   Memory-Usage |        Vol|      Shared           |"
    yield "|      ID  ID  Dev |                     BAR1-Usage | SM     Unc| CE ENC DEC OFA JPG    |"
    yield "|                  |                                |        ECC|                       |"
    yield "|==================+================================+===========+=======================|"
    rows = [row for index, handle in gpus for row in _mig_rows_of(index, mig_devices(handle))]
    yield from rows or [f"|{'  No MIG devices found':<{_WIDTH}}|", _EDGE]


def _mig_rows_of(gpu: int, devices: Sequence[MigDevice]) -> Iterator[str]:
    """Yield the rows of one GPU; the devices of a GPU instance share its memory, which is shown with the first."""
    for device, before, after in zip(devices, (None, *devices), (*devices[1:], None), strict=False):
        memory, window = ("", "") if _share_memory(before, device) else (_mig_memory(device), _mig_bar1(device))
        yield from _mig_rows(gpu, device, memory, window)
        yield _MIG_SHARED_RULE if _share_memory(device, after) else _MIG_RULE


def _share_memory(one: MigDevice | None, other: MigDevice | None) -> bool:
    return one is not None and other is not None and one.gpu_instance == other.gpu_instance


def _mig_rows(gpu: int, device: MigDevice, used: str, window: str) -> Iterator[str]:
    attributes = ask(pynvml.nvmlDeviceGetAttributes_v2, device.handle)
    counts = ("sharedCopyEngineCount", "sharedEncoderCount", "sharedDecoderCount", "sharedOfaCount", "sharedJpegCount")
    shared = [NOT_AVAILABLE if attributes is None else getattr(attributes, count) for count in counts]
    engines = f"{shared[0]:>3}{shared[1]:>4}{shared[2]:>5}{shared[3]:>5}{shared[4]:>5}"
    cores = NOT_AVAILABLE if attributes is None else attributes.multiprocessorCount
    place = f"{gpu:>3}{device.gpu_instance:>5}{device.compute_instance:>4}{device.index:>4}"
    yield f"|{place}  | {used:>29}  | {cores:<3} {text(uncorrected_errors(device)):>5} |{engines} |"
    yield f"|{'':18}| {window:>29}  |{'':11}|{'':23}|"


def _mig_memory(device: MigDevice) -> str:
    memory = ask(pynvml.nvmlDeviceGetMemoryInfo, device.handle)
    return NOT_AVAILABLE if memory is None else f"{memory.used // MIB}MiB / {f'{memory.total // MIB}MiB':>8}"


def _mig_bar1(device: MigDevice) -> str:
    bar1 = ask(pynvml.nvmlDeviceGetBAR1MemoryInfo, device.handle)
    return NOT_AVAILABLE if bar1 is None else f"{bar1.bar1Used // MIB}MiB / {f'{bar1.bar1Total // MIB}MiB':>8}"


def _process_table(gpus: Selected) -> Iterator[str]:
    yield _EDGE
    for title in (
        " Processes:",
        "  GPU   GI   CI        PID   Type   Process name                            GPU Memory ",
        "        ID   ID                                                             Usage      ",
    ):
        yield f"|{title:<{_WIDTH}}|"
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
