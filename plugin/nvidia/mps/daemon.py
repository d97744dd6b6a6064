"""The control daemons of CUDA's Multi-Process Service: find what is shared, start a daemon for each, wait, stop them.

Each resource has a daemon with folders of its own below ``/mps``. It is configured with how much of a GPU each client
may have: its share of the memory and of the threads.

Left out of the original: the GPUs' compute mode, which takes root and an nvidia-smi that can set it, SELinux labels,
and the copy of the daemon's log.

Source: cmd/mps-control-daemon/main.go, ``start``, and cmd/mps-control-daemon/mps (k8s-device-plugin v0.19.0); the texts
are the original's.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...command.options import CommonOptions
from ...command.process import loaded, set_up_logging
from ...framework.restart_policy import OnSignal, caught
from ...nvml.nvml import LIBRARY_NAME, Nvml, NvmlError, session
from ...preference import is_replica
from ..config.flags import GivenSettings
from ..config.settings import SettingsError, SharingStrategy
from ..discovery.device_facts import DeviceFacts
from ..discovery.discovery import DiscoveryError
from ..discovery.mig_profile import mig_patterns
from ..discovery.node_resources import nvml_resources
from ..discovery.resources import NvidiaDevice, NvidiaResource
from .mps import MPS_CONTROL, MPS_FOLDER, mps_folder

__all__ = ["MpsConfigurationError", "MpsControlError", "MpsDaemon", "check_replicas", "run_daemons"]

_log = logging.getLogger(__name__)

_MOST_CLIENTS: Final = 48
_MOST_CLIENTS_BEFORE_TURING: Final = 16
_TURING: Final = (7, 5)
_MIB: Final = 1 << 20
_READY: Final = f"{MPS_FOLDER}/.ready"
"""The file that says that all daemons run."""


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


_RETRY_S: Final = 30.0
_SIGNALS: Final = {
    signal.SIGHUP: OnSignal.RESTART,
    signal.SIGINT: OnSignal.STOP,
    signal.SIGTERM: OnSignal.STOP,
    signal.SIGQUIT: OnSignal.STOP,
}


def run_daemons(nvml: Nvml, given: GivenSettings, options: CommonOptions) -> int:
    """Keep the daemons running until a signal says stop.

    Returns:
        0, or 1 when what is to be shared cannot be found or shared, or a daemon does not end; the reason is the last
        line of the log.
    """
    set_up_logging(options.log_level)
    loaded()
    return asyncio.run(_Daemons(nvml, given, options).run())


class _Daemons:
    def __init__(self, nvml: Nvml, given: GivenSettings, options: CommonOptions) -> None:
        self._nvml = nvml
        self._given = given
        self._options = options
        self._running: list[MpsDaemon] = []
        self._actions: asyncio.Queue[OnSignal] = asyncio.Queue()

    async def run(self) -> int:
        """Start the daemons again and again; the exit status."""
        with caught(_SIGNALS, lambda _number, action: self._actions.put_nowait(action)):
            action = OnSignal.RESTART
            while action is OnSignal.RESTART:
                try:
                    action = await self._run_once()
                except (DiscoveryError, MpsConfigurationError, NvmlError, SettingsError) as error:
                    _log.error("error starting plugins: %s", error)
                    return 1
                except MpsControlError as error:
                    _log.error("error stopping daemons: error sending quit message: %s", error)
                    return 1
        return 0

    async def _run_once(self) -> OnSignal:
        """Start all daemons, wait for a signal or the next try, and stop them."""
        is_whole = await asyncio.to_thread(self._start)
        action = OnSignal.RESTART
        with suppress(TimeoutError):
            async with asyncio.timeout(None if is_whole else _RETRY_S):
                action = await self._actions.get()
        await asyncio.to_thread(self._stop)
        return action

    def _start(self) -> bool:
        """Whether all daemons run."""
        daemons = self._found()
        if not daemons:
            _log.info("No devices are configured for MPS sharing; Waiting indefinitely.")
        for daemon in daemons:
            try:
                daemon.start()
            except MpsControlError as error:
                _log.error("Failed to start MPS daemon: %s", error)
                _log.info("Failed to start one or more MPS deamons. Retrying in 30s...")
                return False
            self._running.append(daemon)
        ready = self._options.on_host(Path(_READY))
        if daemons:
            ready.touch()
        return True

    def _found(self) -> list[MpsDaemon]:
        settings = self._given.load()
        if settings.sharing.strategy is not SharingStrategy.MPS:
            return []
        root = self._options.host_root
        has_nvml = self._nvml.load(LIBRARY_NAME)
        patterns = mig_patterns(self._nvml, settings, has_nvml=has_nvml)
        with session(self._nvml):
            resources = nvml_resources(self._nvml, DeviceFacts(self._nvml, root, is_wsl=False), settings, patterns)
        shared = [resource for resource in resources if any(map(is_replica, resource.devices))]
        for resource in shared:
            check_replicas(resource)
        return [MpsDaemon(resource, self._options.on_host) for resource in shared]

    def _stop(self) -> None:
        self._options.on_host(Path(_READY)).unlink(missing_ok=True)
        _log.info("Stopping MPS daemons.")
        while self._running:
            self._running.pop().stop()
