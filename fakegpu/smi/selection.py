"""Which GPUs a view shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pynvml

Selected = Sequence[tuple[int, Any]]
"""Index and NVML handle of each GPU to show."""


class NotFoundError(Exception):
    """A GPU that somebody asked for is not there."""


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
    if name.isdecimal() and int(name) < pynvml.nvmlDeviceGetCount():
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
