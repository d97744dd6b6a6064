"""The NVIDIA driver of the node, and what every container with a GPU gets of it.

That is its control nodes, libraries, programs, firmware and sockets. To draw, a container needs more than CUDA:
libraries of GBM, Wayland and X, configuration of EGL and Vulkan.

Source: internal/lookup/root/root.go, pkg/nvcdi/common-nvml.go, driver-nvml.go and internal/discover
(nvidia-container-toolkit v1.19.0).
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Sequence
from typing import Final

from simkubelet.apis.cdi import ContainerEdits, DeviceNode, Mount

from ..discovery.node import join
from .hooks import HookMaker, folders_of_libraries, is_version_of, links_to_libraries
from .node_files import MOUNT_OPTIONS, CdiError, NodeFiles

__all__ = ["Driver", "driver_edits"]

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


_CONTROL_NODES: Final = ("/dev/nvidia-modeset", "/dev/nvidia-uvm-tools", "/dev/nvidia-uvm", "/dev/nvidiactl")
_PROGRAMS: Final = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-imex",
    "nvidia-imex-ctl",
)
_SOCKETS: Final = ("/nvidia-persistenced/socket", "/nvidia-fabricmanager/socket")
_SOCKET_OPTIONS: Final = ("nosuid", "nodev", "rbind", "rprivate", "noexec")
_MPS_FOLDER: Final = "/tmp/nvidia-mps"  # noqa: S108 - where the driver puts it
_FIRMWARE_SETTING: Final = "/sys/module/firmware_class/parameters/path"
_FIRMWARE: Final = "/lib/firmware"
_EXPLICIT_LIBRARIES: Final = (
    "libEGL.so",
    "libGL.so",
    "libGLESv1_CM.so",
    "libGLESv2.so",
    "libGLX.so",
    "libGLdispatch.so",
    "libOpenCL.so",
    "libOpenGL.so",
    "libnvidia-api.so",
    "libnvidia-egl-xcb.so",
    "libnvidia-egl-xlib.so",
)


def driver_edits(driver: Driver, dev: NodeFiles, hooks: HookMaker, *, with_explicit_libraries: bool) -> ContainerEdits:
    """The edits that the devices of a specification have in common.

    Args:
        driver: the driver of the node.
        dev: the files below the root of the device nodes.
        hooks: makes the hooks.
        with_explicit_libraries: whether libraries without the driver's version in their names belong to them.
    """
    libraries = driver.files.mounts([f"*.so.{driver.version}"], lambda pattern: driver.find_versioned(pattern, "vdpau"))
    if with_explicit_libraries:
        libraries += driver.files.mounts(_EXPLICIT_LIBRARIES, driver.find_versioned)
    return (
        ContainerEdits(device_nodes=_control_nodes(dev))
        + _graphics_edits(driver, hooks)
        + ContainerEdits(
            env=(f"NVIDIA_CTK_LIBCUDA_DIR={driver.library_folder}",),
            mounts=(*libraries, *_sockets(driver.files), *_firmware(driver), *_programs(driver.files)),
            hooks=(
                *hooks.symlinks(links_to_libraries(libraries, driver.files)),
                hooks.forward_compatibility(driver.version),
                hooks.library_cache(folders_of_libraries(libraries)),
                hooks.keep_device_nodes(),
            ),
        )
    )


def _control_nodes(dev: NodeFiles) -> tuple[DeviceNode, ...]:
    return dev.nodes(_CONTROL_NODES)


def _programs(files: NodeFiles) -> tuple[Mount, ...]:
    return files.mounts(_PROGRAMS, files.find_program)


def _sockets(files: NodeFiles) -> tuple[Mount, ...]:
    sockets = files.mounts(_SOCKETS, lambda path: files.find(path, ("/run", "/var/run"))[:1], _SOCKET_OPTIONS)
    return sockets + files.mounts((_MPS_FOLDER,), lambda path: files.find(path)[:1], _SOCKET_OPTIONS)


def _firmware(driver: Driver) -> tuple[Mount, ...]:
    release = os.uname().release
    folders = [f"{_FIRMWARE}/updates/{release}", f"{_FIRMWARE}/updates", f"{_FIRMWARE}/{release}", _FIRMWARE]
    try:
        custom = driver.files.seen(_FIRMWARE_SETTING).read_text().strip()
    except OSError:
        custom = ""
    if custom:
        folders.insert(0, custom)
    pattern = f"nvidia/{driver.version}/gsp*.bin"
    return driver.files.mounts((pattern,), lambda pattern: driver.files.find(pattern, folders))


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


def _graphics_edits(driver: Driver, hooks: HookMaker) -> ContainerEdits:
    """Mounts for what the driver has to draw with, and links to its libraries."""
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
    return ContainerEdits(
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
