"""Device plugin API v1beta1: between the kubelet and a plugin.

gRPC is loaded when a stub or a servicer is first asked for: a plugin that needs none starts sooner.

Source: k8s.io/kubelet v0.34.4, pkg/apis/deviceplugin/v1beta1 (api.proto and constants.go).
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from ._generated.deviceplugin_v1beta1_pb2_grpc import DevicePluginAsyncStub as DevicePluginAsyncStub
    from ._generated.deviceplugin_v1beta1_pb2_grpc import (
        DevicePluginServicer,
        DevicePluginStub,
        RegistrationServicer,
        RegistrationStub,
        add_DevicePluginServicer_to_server,
        add_RegistrationServicer_to_server,
    )
    from ._generated.deviceplugin_v1beta1_pb2_grpc import RegistrationAsyncStub as RegistrationAsyncStub

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
    "DevicePluginServicer",
    "DevicePluginStub",
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
    "RegistrationServicer",
    "RegistrationStub",
    "TopologyInfo",
    "add_DevicePluginServicer_to_server",
    "add_RegistrationServicer_to_server",
]

VERSION: Final = "v1beta1"
HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"
DEVICE_PLUGIN_PATH: Final = "/var/lib/kubelet/device-plugins"
KUBELET_SOCKET_NAME: Final = "kubelet.sock"
PRE_START_CONTAINER_TIMEOUT_S: Final = 30.0

_STUBS: Final = frozenset(name for name in __all__ if name.endswith(("Servicer", "Stub", "_to_server")))


def __getattr__(name: str) -> Any:
    if name not in _STUBS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import _quiet_grpc as _quiet_grpc

    stubs = importlib.import_module("._generated.deviceplugin_v1beta1_pb2_grpc", __package__)
    globals().update({stub: getattr(stubs, stub) for stub in _STUBS})
    return globals()[name]
