"""DRA health API v1 and v1alpha1: between the kubelet and a driver's plugin that reports the health of its devices.

The messages are those of v1, which v1alpha1 has a part of.

Source: k8s.io/kubelet v0.34.4, pkg/apis/dra-health/v1alpha1; v0.37.0, pkg/apis/dra-health/v1.
"""

from typing import Final

from ._generated.drahealth_v1_pb2 import (
    DeviceHealth,
    DeviceIdentifier,
    NodeWatchResourcesRequest,
    NodeWatchResourcesResponse,
)

__all__ = [
    "HEALTHY",
    "HEALTH_SERVICE",
    "UNHEALTHY",
    "DeviceHealth",
    "DeviceIdentifier",
    "NodeWatchResourcesRequest",
    "NodeWatchResourcesResponse",
]

HEALTH_SERVICE: Final = "v1alpha1.DRAResourceHealth"
"""The service's name, in a registration and on the wire."""
HEALTHY: Final = 1
UNHEALTHY: Final = 2
