"""Pod resources API v1: between the kubelet and monitoring agents.

Source: k8s.io/kubelet v0.34.4, pkg/apis/podresources/v1.
"""

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
    "TopologyInfo",
]
