"""GPUs shared by CUDA's Multi-Process Service, whose control daemon, a program of its own, serves each resource.

The plugin starts serving a resource once the daemon answers, and gives containers the way to it.

Source: internal/plugin/mps.go and cmd/mps-control-daemon/mps (k8s-device-plugin v0.19.0); the texts are the original's.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ...framework import ResourceName
from ..discovery.node import join

if TYPE_CHECKING:
    from simkubelet.apis import deviceplugin as api

__all__ = ["MPS_CONTROL", "MPS_FOLDER", "MpsDaemonError", "MpsSharing", "mps_folder"]

_log = logging.getLogger(__name__)

MPS_CONTROL: Final = "nvidia-cuda-mps-control"
"""The program that talks to a control daemon, and is one."""
_QUESTION: Final = "get_default_active_thread_percentage"
MPS_FOLDER: Final = "/mps"
"""Where plugins and containers see the daemons' folders."""
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - where every container has it


def mps_folder(resource_name: ResourceName, name: str) -> str:
    """One of the folders of a resource's daemon."""
    return join(MPS_FOLDER, resource_name, name)


class MpsDaemonError(Exception):
    """The control daemon of a resource does not answer."""


class MpsSharing(NamedTuple):
    """The sharing of one resource.

    `host_root` is the daemon's folder on the node, `on_host` says where this process sees a path of the node.
    """

    resource_name: ResourceName
    host_root: str
    on_host: Callable[[Path], Path]

    @property
    def pipe_dir(self) -> str:
        """Where the daemon listens, as this plugin and every container see it."""
        return mps_folder(self.resource_name, "pipe")

    def add_to(self, response: api.ContainerAllocateResponse) -> None:
        """Give a container the daemon's pipe and the memory that its clients share."""
        response.envs["CUDA_MPS_PIPE_DIRECTORY"] = self.pipe_dir
        response.mounts.add(container_path=self.pipe_dir, host_path=join(self.host_root, self.resource_name, "pipe"))
        response.mounts.add(container_path=_SHARED_MEMORY, host_path=join(self.host_root, "shm"))

    async def wait_for_daemon(self) -> None:
        """Ask the daemon once; it may take as long as it likes.

        Raises:
            MpsDaemonError: its control program is missing, fails, or cannot reach it.
        """
        try:
            await self._ask()
        except MpsDaemonError as error:
            raise MpsDaemonError(f"error waiting for MPS daemon: error checking MPS daemon health: {error}") from error
        _log.info('"MPS daemon is healthy" resource="%s"', self.resource_name)

    async def _ask(self) -> None:
        # Imported here: most nodes do without.
        import asyncio
        import shutil

        program = shutil.which(MPS_CONTROL)
        if program is None:
            raise MpsDaemonError(
                f'failed to start NVIDIA MPS command: exec: "{MPS_CONTROL}": executable file not found in $PATH'
            )
        environment = {
            "CUDA_MPS_PIPE_DIRECTORY": str(self.on_host(Path(self.pipe_dir))),
            "CUDA_MPS_LOG_DIRECTORY": str(self.on_host(Path(mps_folder(self.resource_name, "log")))),
        }
        try:
            process = await asyncio.create_subprocess_exec(
                program, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, env=environment
            )
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            raise MpsDaemonError(f"failed to start NVIDIA MPS command: fork/exec {program}: {reason}") from error
        try:
            await process.communicate(_QUESTION.encode())
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            raise MpsDaemonError(f"failed to send command to MPS daemon: {_ended(process.returncode)}")


def _ended(status: int) -> str:
    """How Go's os/exec writes the status of a process that failed."""
    if status > 0:
        return f"exit status {status}"
    return f"signal: {(signal.strsignal(-status) or str(-status)).lower()}"
