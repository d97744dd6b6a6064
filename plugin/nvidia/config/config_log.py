"""The settings as the plugin logs them at every start: a configuration file in JSON that gives all of them.

Source: cmd/nvidia-device-plugin/main.go, ``startPlugins``, and the types in api/config/v1 (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .resource_patterns import GPU_PATTERN, ResourcePattern
from .settings import NvidiaSettings, ReplicatedResources

__all__ = ["logged_config"]


def logged_config(settings: NvidiaSettings, mig_patterns: Sequence[ResourcePattern]) -> str:
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
