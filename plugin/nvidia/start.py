"""One start of the plugin: read and log the settings, find the devices, make a plugin for each resource.

The settings are logged as a configuration file in JSON that gives all of them.

Source: cmd/nvidia-device-plugin/main.go, ``startPlugins``, plugin-manager.go, and the types in api/config/v1
(k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from ..command.options import on_host
from ..command.plugin_command import Quirks
from ..errors import FatalError
from ..nvml.events import XidPolicy
from ..nvml.nvml import LIBRARY_NAME, Nvml
from .allocation import Allocator
from .config.settings import NvidiaSettings, ReplicatedResources, SettingsError, SharingStrategy
from .device_plugin import NvidiaPlugin
from .discovery.discovery import DiscoveryError
from .discovery.mig_profile import mig_patterns
from .discovery.node import DriverRoot, ImexChannel, ImexError, find_channels, platform_of
from .discovery.node_resources import find_resources
from .discovery.resources import GPU_PATTERN, NvidiaResource, ResourcePattern
from .mps.mps import MpsSharing

__all__ = ["start"]

_log = logging.getLogger(__name__)

_STARTING: Final = "error starting plugins"
_MAKING_PLUGINS: Final = "error getting plugins: unable to create plugins"


def start(
    nvml: Nvml,
    load: Callable[[], NvidiaSettings],
    host_root: Path,
    environment: Mapping[str, str],
    quirks: Quirks = Quirks.ARTICLE,
    *,
    has_libraries: bool = True,
) -> list[NvidiaPlugin]:
    """Make the plugins for the devices there are now; none where there is no device.

    Args:
        nvml: where GPUs are looked for.
        load: reads the settings, whose file may have changed since the start before.
        host_root: where the node's root file system is seen.
        environment: has the variables of the health check.
        quirks: whose behaviour counts where the original and the article about it differ.
        has_libraries: whether libraries below the driver's root are loaded; else only those of the loader's path.

    Raises:
        FatalError: a setting is invalid, NVML is missing or fails, or a device cannot be read; the texts are the
            original's.
    """
    with _failing("unable to load config"):
        settings = load()
    driver_root = DriverRoot(settings.container_driver_root, host_root, has_libraries)
    has_nvml = nvml.load(driver_root.library(LIBRARY_NAME))
    with _failing("unable to validate flags"):
        settings.validate(has_nvml=has_nvml)
    with _failing("unable to add default resources to config"):
        patterns = mig_patterns(nvml, settings, has_nvml=has_nvml)
    _log.info("Running with config: %s", _logged_config(settings, patterns))
    channels = _imex_channels(settings, driver_root, host_root)
    platform = platform_of(nvml, driver_root, has_nvml=has_nvml)
    with _failing(f"{_MAKING_PLUGINS}: failed to construct resource managers"):
        resources = find_resources(nvml, settings, patterns, platform, host_root)
    here = partial(on_host, host_root)
    sharing = [_mps(resource, settings, here) for resource in resources]
    modes = _write_cdi_specs(nvml, settings, channels, driver_root, here)
    xids = XidPolicy.from_environment(environment)
    return [
        NvidiaPlugin(nvml, Allocator(resource, settings, here, channels, modes, mps), xids, quirks)
        for resource, mps in zip(resources, sharing, strict=True)
    ]


def _imex_channels(settings: NvidiaSettings, driver_root: DriverRoot, host_root: Path) -> tuple[ImexChannel, ...]:
    with _failing("error getting plugins: error querying IMEX channels"):
        return find_channels(
            settings.imex_channel_ids,
            driver_root.dev_root,
            is_required=settings.imex_required,
            on_host=partial(on_host, host_root),
        )


def _write_cdi_specs(
    nvml: Nvml,
    settings: NvidiaSettings,
    channels: tuple[ImexChannel, ...],
    driver_root: DriverRoot,
    on_host: Callable[[Path], Path],
) -> tuple[str, ...]:
    """The optional modes that containers get by CDI."""
    if not (settings.any_cdi and settings.cdi_spec_dir):
        return ()
    # Imported here: most nodes do without.
    from .cdi.node_files import CdiError
    from .cdi.writing import write_specs

    try:
        return write_specs(nvml, settings, channels, driver_root.dev_root, on_host)
    except CdiError as error:
        raise FatalError(f"{_STARTING}: error getting plugins: unable to create cdi spec file: {error}") from error


def _mps(resource: NvidiaResource, settings: NvidiaSettings, on_host: Callable[[Path], Path]) -> MpsSharing | None:
    if settings.sharing.strategy is not SharingStrategy.MPS:
        return None
    if any(device.is_mig for device in resource.devices.values()):
        raise FatalError(
            f"{_STARTING}: {_MAKING_PLUGINS}: failed to create plugin: "
            "sharing using MPS is not supported for MIG devices"
        )
    return MpsSharing(resource.name, settings.mps_root, on_host)


@contextmanager
def _failing(step: str) -> Iterator[None]:
    """End the plugin with the text of an error that a step of the start meets."""
    try:
        yield
    except (DiscoveryError, ImexError, SettingsError) as error:
        raise FatalError(f"{_STARTING}: {step}: {error}") from error


def _logged_config(settings: NvidiaSettings, mig_patterns: Sequence[ResourcePattern]) -> str:
    """The JSON on one line, with the keys in the original's order."""
    return json.dumps(
        {
            "version": "v1",
            "flags": _flags(settings),
            "resources": {
                "gpus": [_pattern(GPU_PATTERN)],
                **({"mig": [_pattern(pattern) for pattern in mig_patterns]} if mig_patterns else {}),
            },
            "sharing": {
                "timeSlicing": _replicated(settings.sharing.time_slicing),
                **({} if settings.sharing.mps is None else {"mps": _replicated(settings.sharing.mps)}),
            },
            "imex": {
                **({"channelIDs": settings.imex_channel_ids} if settings.imex_channel_ids else {}),
                **({"required": True} if settings.imex_required else {}),
            },
        },
        ensure_ascii=False,
    )


def _flags(settings: NvidiaSettings) -> dict[str, Any]:
    return {
        "migStrategy": settings.mig_strategy,
        "failOnInitError": settings.fail_on_init_error,
        "mpsRoot": settings.mps_root,
        "nvidiaDriverRoot": settings.nvidia_driver_root,
        "nvidiaDevRoot": settings.nvidia_dev_root,
        "gdrcopyEnabled": settings.gdrcopy_enabled,
        "gdsEnabled": settings.gds_enabled,
        "mofedEnabled": settings.mofed_enabled,
        "useNodeFeatureAPI": settings.use_node_feature_api,
        "deviceDiscoveryStrategy": settings.device_discovery_strategy,
        "plugin": {
            "passDeviceSpecs": settings.pass_device_specs,
            "deviceListStrategy": settings.device_list_strategies,
            "deviceIDStrategy": settings.device_id_strategy,
            "cdiAnnotationPrefix": settings.cdi_annotation_prefix,
            "nvidiaCTKPath": settings.nvidia_ctk_path,
            "containerDriverRoot": settings.container_driver_root,
        },
    }


def _pattern(pattern: ResourcePattern) -> dict[str, str]:
    return {"pattern": pattern.pattern, "name": pattern.name}


def _replicated(section: ReplicatedResources) -> dict[str, Any]:
    resources = [
        {
            "name": resource.name,
            **({} if resource.rename is None else {"rename": resource.rename}),
            "devices": "all",
            "replicas": resource.replicas,
        }
        for resource in section.resources
    ]
    return {
        **({"renameByDefault": True} if section.rename_by_default else {}),
        **({"failRequestsGreaterThanOne": True} if section.fail_requests_greater_than_one else {}),
        **({"resources": resources} if resources else {}),
    }
