"""The report's third part: errors of the memory, and what was done about them."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import pynvml

from .reading import NOT_AVAILABLE, Tree, ask, switch, text

_YES: Final = ("No", "Yes")
_SRAM_SINCE: Final = pynvml.NVML_DEVICE_ARCH_AMPERE
_KINDS: Final = {
    "Correctable": pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
    "Uncorrectable": pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
}


def tree(handle: Any) -> Tree:
    """The lines from the ECC mode to the remapped rows."""
    current, pending = ask(pynvml.nvmlDeviceGetEccMode, handle) or (None, None)
    return [
        ("ECC Mode", [("Current", switch(current)), ("Pending", switch(pending))]),
        ("ECC Errors", _errors(handle)),
        ("Retired Pages", _retired_pages(handle)),
        ("Remapped Rows", _remapped_rows(handle)),
    ]


def _errors(handle: Any) -> Tree:
    architecture = ask(pynvml.nvmlDeviceGetArchitecture, handle)
    if architecture is None or architecture < _SRAM_SINCE:
        return [
            ("Volatile", _plain_counts(handle, pynvml.NVML_VOLATILE_ECC)),
            ("Aggregate", _plain_counts(handle, pynvml.NVML_AGGREGATE_ECC)),
        ]
    status = _sram_status(handle)
    sources = {
        "SRAM L2": "aggregateUncBucketL2",
        "SRAM SM": "aggregateUncBucketSm",
        "SRAM Microcontroller": "aggregateUncBucketMcu",
        "SRAM PCIE": "aggregateUncBucketPcie",
        "SRAM Other": "aggregateUncBucketOther",
    }
    exceeded = None if status is None else status.bThresholdExceeded
    aggregate = _sram_counts(handle, status, "aggregate", pynvml.NVML_AGGREGATE_ECC)
    return [
        ("Volatile", _sram_counts(handle, status, "volatile", pynvml.NVML_VOLATILE_ECC)),
        ("Aggregate", [*aggregate, ("SRAM Threshold Exceeded", switch(exceeded, _YES))]),
        ("Aggregate Uncorrectable SRAM Sources", [(label, _member(status, name)) for label, name in sources.items()]),
    ]


def _sram_status(handle: Any) -> Any:
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    status.version = pynvml.nvmlEccSramErrorStatus_v1
    return status if ask(pynvml.nvmlDeviceGetSramEccErrorStatus, handle, ctypes.byref(status)) is not None else None


def _member(status: Any, name: str) -> str:
    return NOT_AVAILABLE if status is None else str(getattr(status, name))


def _sram_counts(handle: Any, status: Any, period: str, counter: int) -> Tree:
    return [
        ("SRAM Correctable", _member(status, f"{period}Cor")),
        ("SRAM Uncorrectable Parity", _member(status, f"{period}UncParity")),
        ("SRAM Uncorrectable SEC-DED", _member(status, f"{period}UncSecDed")),
        *_counts(handle, "DRAM", counter, pynvml.NVML_MEMORY_LOCATION_DRAM),
    ]


def _plain_counts(handle: Any, counter: int) -> Tree:
    return [
        *_counts(handle, "SRAM", counter, pynvml.NVML_MEMORY_LOCATION_SRAM),
        *_counts(handle, "DRAM", counter, pynvml.NVML_MEMORY_LOCATION_DRAM),
    ]


def _counts(handle: Any, memory: str, counter: int, location: int) -> Tree:
    function = pynvml.nvmlDeviceGetMemoryErrorCounter
    return [
        (f"{memory} {label}", text(ask(function, handle, kind, counter, location))) for label, kind in _KINDS.items()
    ]


def _retired_pages(handle: Any) -> Tree:
    causes = {
        "Single Bit ECC": pynvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
        "Double Bit ECC": pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
    }
    pages = {label: ask(pynvml.nvmlDeviceGetRetiredPages, handle, cause) for label, cause in causes.items()}
    pending = ask(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, handle)
    counts = [(label, text(None if found is None else len(found))) for label, found in pages.items()]
    return [*counts, ("Pending Page Blacklist", switch(pending, _YES))]


def _remapped_rows(handle: Any) -> str | Tree:
    rows = ask(pynvml.nvmlDeviceGetRemappedRows, handle)
    if rows is None:
        return NOT_AVAILABLE
    corrected, uncorrected, is_pending, has_failed = rows
    banks = ask(pynvml.nvmlDeviceGetRowRemapperHistogram, handle)
    sizes = ("max", "high", "partial", "low", "none")
    histogram = [
        (size.title(), NOT_AVAILABLE if banks is None else f"{getattr(banks, size)} bank(s)") for size in sizes
    ]
    return [
        ("Correctable Error", text(corrected)),
        ("Uncorrectable Error", text(uncorrected)),
        ("Pending", switch(is_pending, _YES)),
        ("Remapping Failure Occurred", switch(has_failed, _YES)),
        ("Bank Remap Availability Histogram", histogram),
    ]
