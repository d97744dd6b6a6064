"""From start to exit of the control daemons: find what is shared, start a daemon for each, wait, stop them.

Source: cmd/mps-control-daemon/main.go, ``start``, and mps/manager.go (k8s-device-plugin v0.19.0); the texts are the
original's.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import suppress
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
from .daemon import READY, MpsConfigurationError, MpsControlError, MpsDaemon, check_replicas

__all__ = ["run_daemons"]

_log = logging.getLogger(__name__)

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
        ready = self._options.on_host(Path(READY))
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
        self._options.on_host(Path(READY)).unlink(missing_ok=True)
        _log.info("Stopping MPS daemons.")
        while self._running:
            self._running.pop().stop()
