"""Device plugin API v1beta1: between the kubelet and a plugin.

Source: k8s.io/kubelet v0.34.4, pkg/apis/deviceplugin/v1beta1 (api.proto and constants.go).
"""

from typing import Final

from ._generated.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    AllocateResponse,
    CDIDevice,
    ContainerAllocateRequest,
    ContainerAllocateResponse,
    ContainerPreferredAllocationRequest,
    ContainerPreferredAllocationResponse,
    Device,
    DevicePluginOptions,
    DeviceSpec,
    Empty,
    ListAndWatchResponse,
    Mount,
    NUMANode,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
    RegisterRequest,
    TopologyInfo,
)

__all__ = [
    "DEVICE_PLUGIN_PATH",
    "HEALTHY",
    "KUBELET_SOCKET_NAME",
    "PRE_START_CONTAINER_TIMEOUT_S",
    "UNHEALTHY",
    "VERSION",
    "AllocateRequest",
    "AllocateResponse",
    "CDIDevice",
    "ContainerAllocateRequest",
    "ContainerAllocateResponse",
    "ContainerPreferredAllocationRequest",
    "ContainerPreferredAllocationResponse",
    "Device",
    "DevicePluginOptions",
    "DeviceSpec",
    "Empty",
    "ListAndWatchResponse",
    "Mount",
    "NUMANode",
    "PreStartContainerRequest",
    "PreStartContainerResponse",
    "PreferredAllocationRequest",
    "PreferredAllocationResponse",
    "RegisterRequest",
    "TopologyInfo",
]

VERSION: Final = "v1beta1"
HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"
DEVICE_PLUGIN_PATH: Final = "/var/lib/kubelet/device-plugins"
KUBELET_SOCKET_NAME: Final = "kubelet.sock"
PRE_START_CONTAINER_TIMEOUT_S: Final = 30.0
