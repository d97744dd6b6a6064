"""A node's published resources, and how the kubelet updates them.

Source: kubelet/nodestatus/setters.go, ``MachineInfo``; kubelet_node_status.go, ``reconcileExtendedResource``
(kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .device_manager import DeviceCapacity
from .resources import ResourceName, is_extended_resource

__all__ = ["NodeStatus", "updated", "with_extended_resources_reset"]


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """Resource -> amount (see `resources.parse_amount`)."""

    capacity: Mapping[ResourceName, int] = field(default_factory=dict)
    allocatable: Mapping[ResourceName, int] = field(default_factory=dict)


def updated(status: NodeStatus, machine: Mapping[ResourceName, int], devices: DeviceCapacity) -> NodeStatus:
    """The next status: the machine's resources and the devices over what was published before.

    A forgotten resource stays in the status with 0, and so does what others wrote there: nothing is ever removed.
    """
    capacity = {**status.capacity, **machine, **devices.capacity, **dict.fromkeys(devices.deleted, 0)}
    return NodeStatus(capacity, {**capacity, **devices.allocatable})


def with_extended_resources_reset(status: NodeStatus) -> NodeStatus:
    """The status of a node that was made anew: its extended resources are 0 until a plugin brings them back."""
    zeroed = {name: 0 for name in status.capacity if is_extended_resource(name)}
    return NodeStatus({**status.capacity, **zeroed}, {**status.allocatable, **zeroed})
