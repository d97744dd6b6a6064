"""The device nodes that let a process use a MIG device, from the driver's list of their minor numbers.

Source: internal/mig/mig-dp.go (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = [
    "MIG_MINORS",
    "MigMinorsError",
    "capability_nodes",
    "compute_instance_capability",
    "gpu_instance_capability",
]

_log = logging.getLogger(__name__)

MIG_MINORS: Final = Path("proc/driver/nvidia-caps/mig-minors")
"""Below the node's root; there is none on a machine without MIG."""

_CAPABILITIES: Final = "/proc/driver/nvidia/capabilities"
_NODE: Final = "/dev/nvidia-caps/nvidia-cap"
_ACCESS: Final = re.compile(r"gpu([0-9]+)/gi([0-9]+)(?:/ci([0-9]+))?/access\s+([0-9]+)")
_GLOBAL: Final = re.compile(r"(config|monitor)\s+([0-9]+)")


class MigMinorsError(Exception):
    """The list cannot be read; the message is the original's."""


def capability_nodes(root: Path) -> Mapping[str, str]:
    """Path of a capability → its device node; nothing where there is no list. Lines of no known form are passed over.

    Raises:
        MigMinorsError: the list is there but cannot be read.
    """
    try:
        lines = (root / MIG_MINORS).read_text().splitlines()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise MigMinorsError(
            f"error opening MIG minors file: open /{MIG_MINORS}: {(error.strerror or '').lower()}"
        ) from error
    return dict(filter(None, map(_parsed, lines)))


def gpu_instance_capability(minor: int, gpu_instance: int) -> str:
    """The path of the capability to use a GPU instance of the GPU with this minor number."""
    return f"{_CAPABILITIES}/gpu{minor}/mig/gi{gpu_instance}/access"


def compute_instance_capability(minor: int, gpu_instance: int, compute_instance: int) -> str:
    """The path of the capability to use a compute instance."""
    return f"{_CAPABILITIES}/gpu{minor}/mig/gi{gpu_instance}/ci{compute_instance}/access"


def _parsed(line: str) -> tuple[str, str] | None:
    if found := _ACCESS.match(line):
        gpu, gpu_instance, compute_instance, minor = found.groups()
        if compute_instance is None:
            return gpu_instance_capability(int(gpu), int(gpu_instance)), f"{_NODE}{int(minor)}"
        path = compute_instance_capability(int(gpu), int(gpu_instance), int(compute_instance))
        return path, f"{_NODE}{int(minor)}"
    if found := _GLOBAL.match(line):
        name, minor = found.groups()
        return f"{_CAPABILITIES}/mig/{name}", f"{_NODE}{int(minor)}"
    _log.error("Skipping line in MIG minors file: unparsable line: %s", line)
    return None
