"""Pod resources API v1alpha1: the deprecated form, without NUMA nodes, that kubelets serve beside v1.

Source: k8s.io/kubelet v0.34.4, pkg/apis/podresources/v1alpha1.
"""

from typing import TYPE_CHECKING

from ._generated.podresources_v1alpha1_pb2 import (
    ContainerDevices,
    ContainerResources,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
    PodResources,
)
from ._stubs import stubs_of

if TYPE_CHECKING:
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

__getattr__ = stubs_of(__name__, "podresources_v1alpha1_pb2_grpc", __all__)
