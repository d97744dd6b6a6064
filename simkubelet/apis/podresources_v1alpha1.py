"""Pod resources API v1alpha1: the deprecated form, without NUMA nodes, that kubelets serve beside v1.

Source: k8s.io/kubelet v0.34.4, pkg/apis/podresources/v1alpha1.
"""

from . import _quiet_grpc as _quiet_grpc
from ._generated.podresources_v1alpha1_pb2 import (
    ContainerDevices,
    ContainerResources,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
    PodResources,
)
from ._generated.podresources_v1alpha1_pb2_grpc import (
    PodResourcesListerServicer,
    PodResourcesListerStub,
    add_PodResourcesListerServicer_to_server,
)

__all__ = [
    "ContainerDevices",
    "ContainerResources",
    "ListPodResourcesRequest",
    "ListPodResourcesResponse",
    "PodResources",
    "PodResourcesListerServicer",
    "PodResourcesListerStub",
    "add_PodResourcesListerServicer_to_server",
]
