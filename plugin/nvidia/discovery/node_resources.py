"""Finds the resources of the node by the discovery strategy, and decides what a machine without GPUs means.

Devices that are shared are offered several times, as replicas.

Source: internal/plugin/factory.go, ``getResourceManagers``; internal/rm/device_map.go, nvml_manager.go and
tegra_devices.go (k8s-device-plugin v0.19.0); the error texts are the original's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ...framework import DeviceID, ResourceName
from ...nvml.nvml import GpuHandle, MigAttributes, Nvml, NvmlError, session
from ...preference import replica_id
from ..config.settings import DiscoveryStrategy, MigStrategy, NvidiaSettings, ReplicatedResource, ReplicatedResources
from .device_facts import DeviceFacts
from .discovery import (
    VISITING_GPU,
    VISITING_MIG_DEVICE,
    DiscoveryError,
    failing_as,
    mig_devices,
    mig_devices_of,
    mig_is_enabled,
    visible_gpus,
)
from .mig_profile import profile_of
from .node import Platform
from .resources import GPU_RESOURCE, NvidiaDevice, NvidiaResource, ResourcePattern, resource_of

__all__ = ["find_resources", "nvml_resources", "tegra_resources", "with_replicas"]

_log = logging.getLogger(__name__)

_Devices = dict[ResourceName, list[NvidiaDevice]]

_BUILDING: Final = "error building device map: error building device map from config.resources"
_TEGRA: Final = "tegra"


def nvml_resources(
    nvml: Nvml, facts: DeviceFacts, settings: NvidiaSettings, patterns: Sequence[ResourcePattern]
) -> tuple[NvidiaResource, ...]:
    """The resources that have devices, in the order in which these were found; NVML must be initialised.

    Args:
        nvml: where the devices are looked for.
        facts: describes them.
        settings: the MIG strategy and what is shared.
        patterns: the resources of MIG devices.

    Raises:
        DiscoveryError: a call failed, or the GPUs' MIG modes do not fit the strategy.
    """
    with failing_as(_BUILDING):
        devices = _DeviceMap(nvml, facts, settings.mig_strategy, patterns).build()
    return _resources(devices, settings.sharing.replicated)


def tegra_resources(settings: NvidiaSettings) -> tuple[NvidiaResource, ...]:
    """The one device of a Tegra system, of which nothing is known."""
    device = NvidiaDevice(DeviceID(_TEGRA), _TEGRA, "0", (), None, 0, "0.0")
    return _resources({GPU_RESOURCE: [device]}, settings.sharing.replicated, is_tegra=True)


def _resources(devices: _Devices, shared: ReplicatedResources, *, is_tegra: bool = False) -> tuple[NvidiaResource, ...]:
    offered = with_replicas(devices, shared)
    return tuple(NvidiaResource.of(name, those, is_tegra=is_tegra) for name, those in offered.items())


class _DeviceMap:
    """One walk over the devices, under one MIG strategy."""

    def __init__(self, nvml: Nvml, facts: DeviceFacts, strategy: str, patterns: Sequence[ResourcePattern]) -> None:
        self._nvml = nvml
        self._facts = facts
        self._strategy = strategy
        self._patterns = patterns

    def build(self) -> _Devices:
        with failing_as("error building GPU device map"):
            devices = self._gpus()
        if self._strategy == MigStrategy.NONE:
            return devices
        with failing_as("error building MIG device map"):
            mig = self._mig_devices()
        with failing_as("invalid MIG configuration"):
            self._check_mig()
        if self._strategy == MigStrategy.SINGLE and devices and mig:
            raise DiscoveryError("all devices on the node must be configured with the same migEnabled value")
        for name, those in mig.items():
            devices.setdefault(name, []).extend(those)
        return devices

    def _gpus(self) -> _Devices:
        found: _Devices = {}
        for index, gpu in visible_gpus(self._nvml):
            with failing_as(VISITING_GPU):
                if not self._is_partitioned(gpu):
                    found.setdefault(GPU_RESOURCE, []).append(self._facts.of_gpu(index, gpu))
        return found

    def _is_partitioned(self, gpu: GpuHandle) -> bool:
        with failing_as("error checking if MIG is enabled on GPU"):
            return mig_is_enabled(self._nvml, gpu) and self._strategy != MigStrategy.NONE

    def _mig_devices(self) -> _Devices:
        found: _Devices = {}
        for device in mig_devices(self._nvml):
            with failing_as(VISITING_MIG_DEVICE):
                place = f"({device.gpu_index}, {device.mig_index})"
                with failing_as(f"error getting MIG profile for MIG device at index '{place}'"):
                    profile = profile_of(self._nvml, device.handle)
                name = resource_of(self._patterns, str(profile))
                if name is None:
                    raise DiscoveryError(f"MIG profile '{profile}' does not match any resource patterns")
                found.setdefault(name, []).append(self._facts.of_mig_device(device))
        return found

    def _check_mig(self) -> None:
        """Check that each GPU in MIG mode has MIG devices, with ``single`` all of one type."""
        with failing_as("at least one device with migEnabled=true was not configured correctly"):
            for index, gpu in visible_gpus(self._nvml):
                with failing_as(VISITING_GPU):
                    self._check_partitions(index, gpu)
        if self._strategy == MigStrategy.SINGLE:
            self._check_uniformity()

    def _check_partitions(self, index: int, gpu: GpuHandle) -> None:
        if not mig_is_enabled(self._nvml, gpu) or any(True for _ in mig_devices_of(self._nvml, gpu)):
            return
        text = f"device {index} has no MIG devices configured"
        if self._strategy == MigStrategy.SINGLE:
            raise DiscoveryError(text)
        _log.warning("%s", text)

    def _check_uniformity(self) -> None:
        first: MigAttributes | None = None
        for device in mig_devices(self._nvml):
            with failing_as(VISITING_MIG_DEVICE):
                with failing_as("error getting device attributes"):
                    attributes = self._nvml.mig_attributes(device.handle)
                first = first or attributes
                if attributes != first:
                    raise DiscoveryError("more than one MIG device type present on node")


def with_replicas(
    devices: Mapping[ResourceName, Sequence[NvidiaDevice]], shared: ReplicatedResources
) -> dict[ResourceName, list[NvidiaDevice]]:
    """The devices of each resource after sharing; a shared resource that the node lacks is passed over."""
    names = {resource.name for resource in shared.resources}
    found = {name: list(those) for name, those in devices.items() if name not in names}
    for resource in shared.resources:
        if replicas := [*_replicas(devices.get(resource.name, ()), resource)]:
            found.setdefault(resource.rename or resource.name, []).extend(replicas)
    return found


def _replicas(devices: Sequence[NvidiaDevice], resource: ReplicatedResource) -> Iterator[NvidiaDevice]:
    for device in devices:
        for number in range(resource.replicas):
            yield replace(device, device_id=replica_id(device.uuid, number), replicas=resource.replicas)


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
