"""The device manager: what plugins listed, who holds what, how it is chosen and how it survives a restart."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from .checkpoint import CHECKPOINT_NAME, Checkpoint, CorruptCheckpointError, checksum, decode
    from .plugin_folder import check_socket_path
    from .pod_devices import AllocationEntry, DeviceRunOptions, merge, response_data
else:
    from .._internal import lazy

    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            ".checkpoint": ("CHECKPOINT_NAME", "Checkpoint", "CorruptCheckpointError", "checksum", "decode"),
            ".plugin_folder": ("check_socket_path",),
            ".pod_devices": ("AllocationEntry", "DeviceRunOptions", "merge", "response_data"),
        },
    )

__all__ = [
    "CHECKPOINT_NAME",
    "AllocationEntry",
    "Checkpoint",
    "CorruptCheckpointError",
    "DeviceRunOptions",
    "check_socket_path",
    "checksum",
    "decode",
    "merge",
    "response_data",
]
