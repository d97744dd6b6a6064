"""One start of the plugin: check the settings, find the GPUs, make the plugin that serves them.

Source: cmd/nvidia-device-plugin/main.go, ``startPlugins``, and internal/plugin/factory.go (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from ..errors import FatalError
from .device_plugin import NvidiaPlugin
from .discovery import DiscoveryError, discover
from .nvml import Nvml, NvmlError, NvmlReturn, session
from .settings import NvidiaSettings, SettingsError
from .xid_policy import XidPolicy

__all__ = ["start"]

_log = logging.getLogger(__name__)

_STARTING_FAILED = "error starting plugins"
_DISCOVERY_FAILED = (
    f"{_STARTING_FAILED}: error getting plugins: unable to create plugins: failed to construct resource managers"
)


def start(nvml: Nvml, settings: NvidiaSettings, sysfs: Path, environment: Mapping[str, str]) -> list[NvidiaPlugin]:
    """Make the plugin for the GPUs there are now; no plugin where there is no GPU.

    `settings.fail_on_init_error` false rescues a missing or failing NVML, which then counts as no GPU.

    Raises:
        FatalError: a setting is invalid, NVML is missing or fails, or a GPU cannot be read; the texts are the
            original's.
    """
    try:
        settings.validate()
    except SettingsError as error:
        raise FatalError(f"{_STARTING_FAILED}: unable to validate flags: {error}") from error
    try:
        with session(nvml):
            gpus = discover(nvml, sysfs)
    except NvmlError as error:
        _without_nvml(error, settings)
        return []
    except DiscoveryError as error:
        raise FatalError(f"{_DISCOVERY_FAILED}: {error}") from error
    return [NvidiaPlugin(nvml, gpus, settings, XidPolicy.from_environment(environment))] if gpus else []


def _without_nvml(error: NvmlError, settings: NvidiaSettings) -> None:
    if error.code == NvmlReturn.LIBRARY_NOT_FOUND:
        reason = "invalid device discovery strategy"
        _log.warning("No NVML library found; on a GPU node it comes with the driver and must be on the loader's path.")
    else:
        reason = f"nvml init failed: {error}"
        _log.error("Failed to initialize NVML: %s.", error)
    if settings.fail_on_init_error:
        raise FatalError(f"{_DISCOVERY_FAILED}: {reason}")
