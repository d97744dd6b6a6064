"""Finds the resources of the node by the discovery strategy, and decides what a machine without GPUs means.

Source: internal/plugin/factory.go, ``getResourceManagers`` (k8s-device-plugin v0.19.0); the error texts are the
original's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from ...nvml.nvml import Nvml, NvmlError, session
from ..config.resource_patterns import ResourcePattern
from ..config.settings import DiscoveryStrategy, NvidiaSettings
from .device_facts import DeviceFacts
from .device_map import nvml_resources, tegra_resources
from .discovery import DiscoveryError
from .node_platform import Platform
from .resources import NvidiaResource

__all__ = ["find_resources"]

_log = logging.getLogger(__name__)

_PREREQUISITES = (
    "The driver and its libraries must be visible to this plugin; elsewhere keep it off by a node selector."
)


def find_resources(
    nvml: Nvml, settings: NvidiaSettings, patterns: Sequence[ResourcePattern], platform: Platform, root: Path
) -> tuple[NvidiaResource, ...]:
    """The resources that have devices.

    `settings.fail_on_init_error` false makes a machine without NVML, or with one that fails, one without GPUs.

    Args:
        nvml: where GPUs are looked for.
        settings: how they are looked for and shared.
        patterns: the resources of MIG devices.
        platform: the kind of machine, which decides for the strategy ``auto``.
        root: where the node's root file system is seen.

    Raises:
        DiscoveryError: there is no way to find GPUs, or finding them failed.
    """
    strategy = settings.device_discovery_strategy
    if strategy == DiscoveryStrategy.AUTO:
        if platform is Platform.UNKNOWN:
            _log.error("Incompatible strategy detected %s", strategy)
            return _none(settings, "invalid device discovery strategy")
        strategy = DiscoveryStrategy.TEGRA if platform is Platform.TEGRA else DiscoveryStrategy.NVML
    if strategy == DiscoveryStrategy.TEGRA:
        return tegra_resources(settings)
    try:
        with session(nvml):
            facts = DeviceFacts(nvml, root, is_wsl=platform is Platform.WSL)
            return nvml_resources(nvml, facts, settings, patterns)
    except NvmlError as error:
        _log.error("Failed to initialize NVML: %s.", error)
        return _none(settings, f"nvml init failed: {error}")


def _none(settings: NvidiaSettings, reason: str) -> tuple[NvidiaResource, ...]:
    _log.error(_PREREQUISITES)
    if settings.fail_on_init_error:
        raise DiscoveryError(reason)
    _log.warning("%s", reason)
    return ()
