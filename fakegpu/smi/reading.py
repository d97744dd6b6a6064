"""Asking NVML, where no answer is an answer too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pynvml

Tree = Sequence[tuple[str, "str | Tree"]]
"""Lines in the order of the report. A label may begin with blanks: its line is set in without a heading above it."""


NOT_AVAILABLE: Final = "N/A"
MIB: Final = 1 << 20
ALL_BITS_32: Final = (1 << 32) - 1


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
    word = value.decode() if isinstance(value, bytes) else str(value)
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
