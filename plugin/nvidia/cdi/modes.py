"""What helps GPUs to move data, as CDI devices of one class each, all of it named ``all``.

Source: internal/discover/gdrcopy.go, gds.go and mofed.go (nvidia-container-toolkit v1.19.0).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from .model import CdiDevice, Edits, Mount
from .node_files import NodeFiles

__all__ = ["mode_device"]

_NODES: Final = {
    "gdrcopy": ("/dev/gdrdrv",),
    "gds": ("/dev/nvidia-fs*",),
    "mofed": ("/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"),
}


def mode_device(mode: str, files: NodeFiles, dev: NodeFiles) -> CdiDevice:
    """The device of a mode, ``gdrcopy``, ``gds`` or ``mofed``; it has no edits where the node lacks the nodes.

    Args:
        mode: which.
        files: the files below the root of the driver.
        dev: the files below the root of the device nodes.
    """
    nodes = dev.nodes(_NODES[mode])
    mounts: tuple[Mount, ...] = ()
    if mode == "gds" and nodes:
        mounts = (
            *files.mounts(("/run/udev",), lambda path: files.find(path, accepts=Path.is_dir)),
            *files.mounts(("/etc/cufile.json",), files.find),
        )
    return CdiDevice("all", Edits(device_nodes=nodes, mounts=mounts))
