"""Plugin registration API v1: between the kubelet's plugin watcher and a plugin in ``plugins_registry/``.

Source: k8s.io/kubelet v0.34.4, pkg/apis/pluginregistration/v1.
"""

from typing import TYPE_CHECKING, Final

from ._generated.pluginregistration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from ._stubs import stubs_of

if TYPE_CHECKING:
    from ._generated.pluginregistration_v1_pb2_grpc import RegistrationAsyncStub as RegistrationAsyncStub
    from ._generated.pluginregistration_v1_pb2_grpc import (
        RegistrationServicer,
        RegistrationStub,
        add_RegistrationServicer_to_server,
    )

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

__getattr__ = stubs_of(__name__, "pluginregistration_v1_pb2_grpc", __all__)
