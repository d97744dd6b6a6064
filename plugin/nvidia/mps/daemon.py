"""Starts CUDA's control daemon of the Multi-Process Service for the resources whose GPUs are shared by it.

Each resource has a daemon with folders of its own below ``/mps``. It is configured with how much of a GPU each client
may have: its share of the memory and of the threads.

Left out of the original: the GPUs' compute mode, which takes root and an nvidia-smi that can set it, SELinux labels,
and the copy of the daemon's log.

Source: cmd/mps-control-daemon/mps (k8s-device-plugin v0.19.0); the error texts are the original's.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..discovery.resources import NvidiaDevice, NvidiaResource
from .mps import MPS_CONTROL, MPS_FOLDER, mps_folder

__all__ = ["READY", "MpsConfigurationError", "MpsControlError", "MpsDaemon", "check_replicas"]

_log = logging.getLogger(__name__)

_MOST_CLIENTS: Final = 48
_MOST_CLIENTS_BEFORE_TURING: Final = 16
_TURING: Final = (7, 5)
_MIB: Final = 1 << 20


class MpsConfigurationError(Exception):
    """More replicas than a GPU can have clients."""


class MpsControlError(Exception):
    """A daemon cannot be started, or refuses a command."""


def check_replicas(resource: NvidiaResource) -> None:
    """Make sure that the GPUs can be shared so often.

    Raises:
        MpsConfigurationError: one cannot.
    """
    for device in resource.devices.values():
        if device.replicas > (most := _most_clients(device)):
            raise MpsConfigurationError(
                "invalid MPS configuration: invalid device maximum allowed replicas exceeded: "
                f"{device.replicas} > {most}"
            )


@dataclass(frozen=True, slots=True)
class MpsDaemon:
    """The daemon of one resource; `on_host` says where this process sees a path of the node."""

    resource: NvidiaResource
    on_host: Callable[[Path], Path]

    def start(self) -> None:
        """Start the daemon in the background and set what clients may have.

        Raises:
            MpsControlError: it cannot be started, or refuses a command.
        """
        _log.info('"Staring MPS daemon" resource="%s"', self.resource.name)
        try:
            for name in ("pipe", "log"):
                self._folder(name).mkdir(mode=0o755, parents=True, exist_ok=True)
            self._run("-d")
            for command in self._commands():
                self._run(command=command)
            self._folder(".started").touch()
        except OSError as error:
            raise MpsControlError(f"{error.filename}: {error.strerror or error}") from error

    def stop(self) -> None:
        """End the daemon, and remove what says that it is there.

        Raises:
            MpsControlError: it refuses the command to end.
        """
        self._run(command="quit")
        _log.info('"Stopped MPS control daemon" resource="%s"', self.resource.name)
        self._folder(".started").unlink(missing_ok=True)
        shutil.rmtree(self._folder("log"), ignore_errors=True)

    def _commands(self) -> Iterator[str]:
        devices = self.resource.devices.values()
        replicas = Counter(device.index for device in devices)
        memory_bytes = {device.index: device.total_memory_bytes for device in devices}
        for index, total_bytes in memory_bytes.items():
            if total_bytes:
                limit_mib = total_bytes // replicas[index] // _MIB
                yield f"set_default_device_pinned_mem_limit {index} {limit_mib}M"
        yield f"set_default_active_thread_percentage {100 // (len(devices) // len(replicas))}"

    def _run(self, *args: str, command: str = "") -> None:
        program = shutil.which(MPS_CONTROL)
        if program is None:
            raise MpsControlError(f'exec: "{MPS_CONTROL}": executable file not found in $PATH')
        environment = {
            **os.environ,
            "CUDA_MPS_PIPE_DIRECTORY": str(self._folder("pipe")),
            "CUDA_MPS_LOG_DIRECTORY": str(self._folder("log")),
        }
        # The daemon would keep the other end of a pipe open.
        done = subprocess.run(
            [program, *args], input=command, env=environment, stdout=subprocess.DEVNULL, text=True, check=False
        )
        if done.returncode:
            raise MpsControlError(f"failed to send command to MPS daemon: exit status {done.returncode}")

    def _folder(self, name: str) -> Path:
        return self.on_host(Path(mps_folder(self.resource.name, name)))


def _most_clients(device: NvidiaDevice) -> int:
    version = tuple(int(part) for part in device.compute_capability.split("."))
    return _MOST_CLIENTS if version >= _TURING else _MOST_CLIENTS_BEFORE_TURING


READY: Final = f"{MPS_FOLDER}/.ready"
"""The file that says that all daemons run."""
