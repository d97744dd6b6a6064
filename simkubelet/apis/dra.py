"""DRA plugin API v1, v1beta1, v1alpha4: between the kubelet and the plugin of a driver of Dynamic Resource Allocation.

All versions have the same messages. A plugin names the services that it serves when it registers.

Source: k8s.io/kubelet v0.34.4, pkg/apis/dra/v1, pkg/apis/dra/v1beta1; v0.33.13, pkg/apis/dra/v1alpha4 (api.proto and
types.go).
"""

from collections.abc import Mapping
from typing import Final

from ._generated.dra_v1_pb2 import (
    Claim,
    Device,
    NodePrepareResourceResponse,
    NodePrepareResourcesRequest,
    NodePrepareResourcesResponse,
    NodeUnprepareResourceResponse,
    NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
)

__all__ = [
    "CALL_TIMEOUT_S",
    "DRA_PLUGIN_TYPE",
    "SERVICES",
    "Claim",
    "Device",
    "NodePrepareResourceResponse",
    "NodePrepareResourcesRequest",
    "NodePrepareResourcesResponse",
    "NodeUnprepareResourceResponse",
    "NodeUnprepareResourcesRequest",
    "NodeUnprepareResourcesResponse",
]

DRA_PLUGIN_TYPE: Final = "DRAPlugin"
"""The type of the plugin in its answer to GetInfo."""
SERVICES: Final[Mapping[str, str]] = {
    "v1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
    "v1beta1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin",
    # The names of the API v1alpha4, which only kubelets before 1.34 call.
    "v1alpha3.NodeService": "v1alpha3.Node",
}
"""The supported version of a registration -> the service's name on the wire; newest first."""
CALL_TIMEOUT_S: Final = 45.0
