"""``nvidia-smi -L``: one line for each GPU and its MIG devices."""

from __future__ import annotations

from collections.abc import Iterator

import pynvml

from .mig_devices import mig_devices
from .selection import Selected


def lines(gpus: Selected) -> Iterator[str]:
    """The lines of the list."""
    for index, handle in gpus:
        name, uuid = pynvml.nvmlDeviceGetName(handle), pynvml.nvmlDeviceGetUUID(handle)
        yield f"GPU {index}: {name} (UUID: {uuid})"
        for device in mig_devices(handle):
            yield f"  MIG {device.profile:<11} Device {device.index:>2}: (UUID: {device.uuid})"
