"""The scheduler's plugins, by their names."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Plugin"]


class Plugin(StrEnum):
    """A plugin of the default profile that can refuse a pod, in the order in which they are asked.

    NodeName is not among them: a pod that names its node never comes to the scheduler.

    Source: pkg/scheduler/apis/config/v1/default_plugins.go, ``getDefaultPlugins`` (kubernetes v1.34.4).
    """

    SCHEDULING_GATES = "SchedulingGates"
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    TAINT_TOLERATION = "TaintToleration"
    NODE_AFFINITY = "NodeAffinity"
    NODE_PORTS = "NodePorts"
    NODE_RESOURCES_FIT = "NodeResourcesFit"
    INTER_POD_AFFINITY = "InterPodAffinity"
