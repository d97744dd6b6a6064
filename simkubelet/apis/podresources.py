"""Pod resources API v1: between the kubelet and monitoring agents.

Source: k8s.io/kubelet v0.34.4, pkg/apis/podresources/v1.
"""

from typing import TYPE_CHECKING

from ._generated.podresources_v1_pb2 import (
    AllocatableResourcesRequest,
    AllocatableResourcesResponse,
    CDIDevice,
    ClaimResource,
    ContainerDevices,
    ContainerMemory,
    ContainerResources,
    DynamicResource,
    GetPodResourcesRequest,
    GetPodResourcesResponse,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
    NUMANode,
    PodResources,
    TopologyInfo,
)
from ._stubs import stubs_of

if TYPE_CHECKING:
    from ._generated.podresources_v1_pb2_grpc import (
        PodResourcesListerServicer,
        PodResourcesListerStub,
        add_PodResourcesListerServicer_to_server,
    )

__all__ = [
    "AllocatableResourcesRequest",
    "AllocatableResourcesResponse",
    "CDIDevice",
    "ClaimResource",
    "ContainerDevices",
    "ContainerMemory",
    "ContainerResources",
    "DynamicResource",
    "GetPodResourcesRequest",
    "GetPodResourcesResponse",
    "ListPodResourcesRequest",
    "ListPodResourcesResponse",
    "NUMANode",
    "PodResources",
    "PodResourcesListerServicer",
    "PodResourcesListerStub",
    "TopologyInfo",
    "add_PodResourcesListerServicer_to_server",
]

__getattr__ = stubs_of(__name__, "podresources_v1_pb2_grpc", __all__)
