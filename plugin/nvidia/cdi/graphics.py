"""What a container needs beyond CUDA to draw: libraries of GBM, Wayland and X, configuration of EGL and Vulkan.

Source: internal/discover/graphics.go (nvidia-container-toolkit v1.19.0).
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Sequence
from typing import Final

from ..go_path import join
from .driver import Driver
from .hooks import HookMaker
from .libraries import is_version_of
from .model import Edits, Mount
from .node_files import MOUNT_OPTIONS, NodeFiles

__all__ = ["graphics_edits"]

_ALLOCATOR: Final = "libnvidia-allocator.so"
_PRODUCER: Final = "libnvidia-vulkan-producer.so"
_X_SERVER: Final = "libglxserver_nvidia.so"
_CONFIGURATION: Final = (
    "glvnd/egl_vendor.d/10_nvidia.json",
    "egl/egl_external_platform.d/15_nvidia_gbm.json",
    "egl/egl_external_platform.d/10_nvidia_wayland.json",
    "nvidia/nvoptix.bin",
    "X11/xorg.conf.d/10-nvidia.conf",
    "X11/xorg.conf.d/nvidia-drm-outputclass.conf",
)
_VULKAN: Final = (
    "vulkan/icd.d/nvidia_icd.json",
    "vulkan/icd.d/nvidia_layers.json",
    "vulkan/implicit_layer.d/nvidia_layers.json",
)
_ARCHITECTURES: Final = ("x86_64", "aarch64")
_X_FOLDERS: Final = ("/usr/lib/xorg", "/usr/lib64/xorg", "/usr/X11R6/lib", "/usr/X11R6/lib64")
_X_PARTS: Final = ("modules/drivers", "modules/extensions", "modules/updates/drivers", "modules/updates/extensions")


def graphics_edits(driver: Driver, hooks: HookMaker) -> Edits:
    """Mounts for what of all this the driver has, and links to its libraries."""
    files = driver.files
    libraries = (
        *files.mounts(
            [
                "libnvidia-egl-gbm.so.*.*",
                "libnvidia-egl-wayland.so.*.*",
                f"{_ALLOCATOR}.{driver.version}",
                f"{_PRODUCER}.{driver.version}",
            ],
            files.find_library,
        ),
        *files.mounts(
            ["nvidia_drv.so", f"{_X_SERVER}.{driver.version}"],
            lambda name: files.find(name, _x_folders(driver.library_folder))[:1],
        ),
    )
    folders = _data_folders()
    return Edits(
        # The allocator is among the driver's own libraries; here it only stands for its link.
        mounts=(
            *(mount for mount in libraries if not is_version_of(posixpath.basename(mount.host_path), _ALLOCATOR)),
            *files.mounts(_CONFIGURATION, lambda name: files.find(name, folders)),
            *_vulkan(files, folders),
        ),
        hooks=hooks.symlinks(list(_links(libraries))),
    )


def _links(libraries: Sequence[Mount]) -> Iterator[str]:
    for mount in libraries:
        folder, name = posixpath.split(mount.container_path)
        if is_version_of(name, _ALLOCATOR):
            yield f"../{_ALLOCATOR}.1::{join(folder, 'gbm/nvidia-drm_gbm.so')}"
        for library in (_PRODUCER, _X_SERVER):
            if is_version_of(name, library):
                yield f"{name}::{join(folder, library)}"


def _vulkan(files: NodeFiles, folders: Sequence[str]) -> Iterator[Mount]:
    """Each below ``/etc`` in the container, wherever the node has it."""
    machine = os.uname().machine
    own = [f"vulkan/icd.d/nvidia_icd.{machine}.json"] if machine in _ARCHITECTURES else []
    taken = set()
    for name in (*_VULKAN, *own):
        for path in (files.find(name, folders) or files.find(name))[:1]:
            if path not in taken:
                taken.add(path)
                yield Mount(path, join("/etc", name), MOUNT_OPTIONS)


def _x_folders(library_folder: str) -> list[str]:
    return [
        join(library_folder, "nvidia/xorg"),
        *(join(library_folder, "xorg", part) for part in _X_PARTS),
        *(join(folder, part) for folder in _X_FOLDERS for part in _X_PARTS),
    ]


def _data_folders() -> list[str]:
    found = [folder for folder in os.environ.get("XDG_DATA_DIRS", "").split(os.pathsep) if folder]
    return ["/etc", *(found or ("/usr/local/share", "/usr/share"))]
