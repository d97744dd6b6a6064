"""The NVIDIA driver as it is installed on the node: its version and the folder of its libraries.

Source: internal/lookup/root/root.go (nvidia-container-toolkit v1.19.0).
"""

from __future__ import annotations

import posixpath
from typing import Final

from ..discovery.node import join
from .node_files import CdiError, NodeFiles

__all__ = ["Driver"]

_LIBRARIES: Final = ("libcuda.so.", "libnvidia-ml.so.")
_ANY_VERSION: Final = "*.*"


class Driver:
    """The driver below the root of `files`.

    Args:
        files: where it is looked for.
        version: what NVML says; empty where that is not known.

    Raises:
        CdiError: none of the libraries that every driver has is there under this version.
    """

    def __init__(self, files: NodeFiles, version: str) -> None:
        self.files = files
        library, self.version = self._library(version)
        self.library_folder = files.below_root(posixpath.dirname(library))
        """Where its libraries are, below the root."""

    def find_versioned(self, pattern: str, *folders: str) -> list[str]:
        """The files that a pattern fits, in the library folder and folders below that, links followed."""
        places = [self.library_folder, *(join(self.library_folder, folder) for folder in folders)]
        return self.files.find_resolved(pattern, places)

    def _library(self, version: str) -> tuple[str, str]:
        """A library of the driver, and the version in its name."""
        searched = version or _ANY_VERSION
        for name in _LIBRARIES:
            if found := self.files.find_library(f"{name}{searched}"):
                found_version = posixpath.basename(found[0]).removeprefix(name)
                if version not in ("", found_version):
                    raise _failure(f"unexpected version detected: {version} != {found_version}")
                return found[0], found_version
        # The original looks in folders and in the loader's cache, and says so for either.
        missing = (f"{name}{searched}: not found" for name in _LIBRARIES)
        raise _failure("\n".join(f"failed to locate libcuda.so: {text}\n{text}" for text in missing))


def _failure(reason: str) -> CdiError:
    return CdiError(
        "failed to create discoverer for common entities: failed to create discoverer for driver files: "
        f"failed to get libcuda.so parent path: {reason}"
    )
