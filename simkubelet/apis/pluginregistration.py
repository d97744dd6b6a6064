"""Plugin registration API v1: between the kubelet's plugin watcher and a plugin in ``plugins_registry/``.

Source: k8s.io/kubelet v0.34.4, pkg/apis/pluginregistration/v1.
"""

from typing import Final

from ._generated.pluginregistration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)

__all__ = [
    "DEVICE_PLUGIN_TYPE",
    "PLUGINS_REGISTRY",
    "PLUGINS_REGISTRY_PATH",
    "InfoRequest",
    "PluginInfo",
    "RegistrationStatus",
    "RegistrationStatusResponse",
]

DEVICE_PLUGIN_TYPE: Final = "DevicePlugin"
PLUGINS_REGISTRY: Final = "plugins_registry"
"""The folder beside ``device-plugins`` in which the kubelet finds sockets."""
PLUGINS_REGISTRY_PATH: Final = f"/var/lib/kubelet/{PLUGINS_REGISTRY}"
