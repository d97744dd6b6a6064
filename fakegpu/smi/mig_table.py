"""The table of MIG devices below that of GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pynvml

from .device_list import MigDevice, mig_devices, uncorrected_errors
from .reading import MIB, NOT_AVAILABLE, ask, text
from .selection import Selected

_EDGE: Final = f"+{'-' * 87}+"
_RULE: Final = "+------------------+--------------------------------+-----------+-----------------------+"
_SHARED_RULE: Final = "+------------------+                                +-----------+-----------------------+"


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
    rows = [row for index, handle in gpus for row in _gpu_rows(index, mig_devices(handle))]
    yield from rows or [f"|{'  No MIG devices found':<87}|", _EDGE]


def _gpu_rows(gpu: int, devices: Sequence[MigDevice]) -> Iterator[str]:
    """Yield the rows of one GPU; the devices of a GPU instance share its memory, which is shown with the first."""
    for device, before, after in zip(devices, (None, *devices), (*devices[1:], None), strict=False):
        memory, window = ("", "") if _share(before, device) else (_memory(device), _bar1(device))
        yield from _rows(gpu, device, memory, window)
        yield _SHARED_RULE if _share(device, after) else _RULE


def _share(one: MigDevice | None, other: MigDevice | None) -> bool:
    return one is not None and other is not None and one.gpu_instance == other.gpu_instance


def _rows(gpu: int, device: MigDevice, used: str, window: str) -> Iterator[str]:
    attributes = ask(pynvml.nvmlDeviceGetAttributes_v2, device.handle)
    counts = ("sharedCopyEngineCount", "sharedEncoderCount", "sharedDecoderCount", "sharedOfaCount", "sharedJpegCount")
    shared = [NOT_AVAILABLE if attributes is None else getattr(attributes, count) for count in counts]
    engines = f"{shared[0]:>3}{shared[1]:>4}{shared[2]:>5}{shared[3]:>5}{shared[4]:>5}"
    cores = NOT_AVAILABLE if attributes is None else attributes.multiprocessorCount
    place = f"{gpu:>3}{device.gpu_instance:>5}{device.compute_instance:>4}{device.index:>4}"
    yield f"|{place}  | {used:>29}  | {cores:<3} {text(uncorrected_errors(device)):>5} |{engines} |"
    yield f"|{'':18}| {window:>29}  |{'':11}|{'':23}|"


def _memory(device: MigDevice) -> str:
    memory = ask(pynvml.nvmlDeviceGetMemoryInfo, device.handle)
    return NOT_AVAILABLE if memory is None else f"{memory.used // MIB}MiB / {f'{memory.total // MIB}MiB':>8}"


def _bar1(device: MigDevice) -> str:
    bar1 = ask(pynvml.nvmlDeviceGetBAR1MemoryInfo, device.handle)
    return NOT_AVAILABLE if bar1 is None else f"{bar1.bar1Used // MIB}MiB / {f'{bar1.bar1Total // MIB}MiB':>8}"
