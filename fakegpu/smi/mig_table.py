"""The table of MIG devices below that of GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pynvml

from .mig_devices import MigDevice, mig_devices
from .reading import MIB, NOT_AVAILABLE, ask
from .selection import Selected

_EDGE: Final = f"+{'-' * 87}+"
_RULE: Final = "+------------------+--------------------------------+-----------+-----------------------+"


def lines(gpus: Selected) -> Iterator[str]:
    """The table; nothing where no GPU is in MIG mode."""
    modes = [ask(pynvml.nvmlDeviceGetMigMode, handle) for _, handle in gpus]
    if not any(mode is not None and mode[0] for mode in modes):
        return
    yield ""
    yield _EDGE
    yield f"| {'MIG devices:':<86}|"
    yield _RULE
    yield "| GPU  GI  CI  MIG |                   Memory-Usage |        Vol|      Shared           |"
    yield "|      ID  ID  Dev |                     BAR1-Usage | SM     Unc| CE ENC DEC OFA JPG    |"
    yield "|                  |                                |        ECC|                       |"
    yield "|==================+================================+===========+=======================|"
    rows = [row for index, handle in gpus for device in mig_devices(handle) for row in _rows(index, device)]
    yield from rows or [f"|{'  No MIG devices found':<87}|", _EDGE]


def _rows(gpu: int, device: MigDevice) -> Iterator[str]:
    attributes = ask(pynvml.nvmlDeviceGetAttributes_v2, device.handle)
    memory = ask(pynvml.nvmlDeviceGetMemoryInfo, device.handle)
    bar1 = ask(pynvml.nvmlDeviceGetBAR1MemoryInfo, device.handle)
    counts = ("sharedCopyEngineCount", "sharedEncoderCount", "sharedDecoderCount", "sharedOfaCount", "sharedJpegCount")
    shared = [NOT_AVAILABLE if attributes is None else getattr(attributes, count) for count in counts]
    engines = f"{shared[0]:>3}{shared[1]:>4}{shared[2]:>5}{shared[3]:>5}{shared[4]:>5}"
    cores = NOT_AVAILABLE if attributes is None else attributes.multiprocessorCount
    place = f"{gpu:>3}{device.gpu_instance:>5}{device.compute_instance:>4}{device.index:>4}"
    used = NOT_AVAILABLE if memory is None else f"{memory.used // MIB}MiB / {f'{memory.total // MIB}MiB':>8}"
    window = NOT_AVAILABLE if bar1 is None else f"{bar1.bar1Used // MIB}MiB / {f'{bar1.bar1Total // MIB}MiB':>8}"
    yield f"|{place}  | {used:>29}  | {cores:<3} {_errors(device):>5} |{engines} |"
    yield f"|{'':18}| {window:>29}  |{'':11}|{'':23}|"
    yield _RULE


def _errors(device: MigDevice) -> str:
    where = (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC, pynvml.NVML_MEMORY_LOCATION_SRAM)
    count = ask(pynvml.nvmlDeviceGetMemoryErrorCounter, device.handle, *where)
    return NOT_AVAILABLE if count is None else str(count)
