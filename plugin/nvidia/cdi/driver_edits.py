"""What every container with a GPU gets: control nodes, the driver's libraries, programs, firmware and sockets.

Source: pkg/nvcdi/common-nvml.go, driver-nvml.go and internal/discover (nvidia-container-toolkit v1.19.0).
"""

from __future__ import annotations

import os
from typing import Final

from .driver import Driver
from .graphics import graphics_edits
from .hooks import HookMaker
from .libraries import folders_of_libraries, links_to_libraries
from .model import DeviceNode, Edits, Mount
from .node_files import NodeFiles

__all__ = ["driver_edits"]

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


def driver_edits(driver: Driver, dev: NodeFiles, hooks: HookMaker, *, with_explicit_libraries: bool) -> Edits:
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
        Edits(device_nodes=_control_nodes(dev))
        + graphics_edits(driver, hooks)
        + Edits(
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
