"""Pod resources API v1alpha1: the deprecated form, without NUMA nodes, that kubelets serve beside v1.

Source: k8s.io/kubelet v0.34.4, pkg/apis/podresources/v1alpha1.
"""

from ._generated.podresources_v1alpha1_pb2 import (
    ContainerDevices,
    ContainerResources,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
    PodResources,
)

__all__ = [
    "ContainerDevices",
    "ContainerResources",
    "ListPodResourcesRequest",
    "ListPodResourcesResponse",
    "PodResources",
]
