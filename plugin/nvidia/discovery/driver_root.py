"""Where this process sees the driver's files.

Source: cmd/nvidia-device-plugin/root.go (k8s-device-plugin v0.19.0), pkg/nvlib/info/root.go (go-nvlib v0.9.1).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["DriverRoot"]

_LIBRARY_FOLDERS: Final = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
)


class DriverRoot(NamedTuple):
    """The folder `path` of the node, whose root file system is seen at `host_root`; it need not be there."""

    path: str
    host_root: Path

    def file(self, path: str) -> Path:
        """Where this process sees a file below the driver's root."""
        return self.host_root / self.path.lstrip("/") / path.lstrip("/")

    @property
    def dev_root(self) -> str:
        """The folder above the ``dev`` with the device nodes: this one if it has such a folder, else the node's."""
        return self.path if self.file("dev").is_dir() else "/"

    def library(self, name: str) -> str:
        """What to ask the loader for: a library's path where it lies below this root, else its name."""
        if self.path in ("", "/"):
            return name
        for folder in _LIBRARY_FOLDERS:
            found = self.file(f"{folder}/{name}")
            if found.exists():
                return str(found.resolve())
        return name
