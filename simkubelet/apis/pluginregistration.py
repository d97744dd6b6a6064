"""Plugin registration API v1: between the kubelet's plugin watcher and a plugin in ``plugins_registry/``.

Source: k8s.io/kubelet v0.34.4, pkg/apis/pluginregistration/v1.
"""

from typing import TYPE_CHECKING, Final

from . import _quiet_grpc as _quiet_grpc
from ._generated.pluginregistration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from ._generated.pluginregistration_v1_pb2_grpc import (
    RegistrationServicer,
    RegistrationStub,
    add_RegistrationServicer_to_server,
)

if TYPE_CHECKING:
    from ._generated.pluginregistration_v1_pb2_grpc import RegistrationAsyncStub as RegistrationAsyncStub

__all__ = [
    "DEVICE_PLUGIN_TYPE",
    "InfoRequest",
    "PluginInfo",
    "RegistrationServicer",
    "RegistrationStatus",
    "RegistrationStatusResponse",
    "RegistrationStub",
    "add_RegistrationServicer_to_server",
]

DEVICE_PLUGIN_TYPE: Final = "DevicePlugin"
