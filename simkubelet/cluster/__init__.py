"""The cluster around simulated nodes: its objects, what kubelets see of them (`store`) and the scheduler."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from .api.decoding.schema import FieldFault, field_faults
    from .api.endpoints.listener import HOST, HttpListener
    from .api.endpoints.server import ApiServer
    from .api.errors import StatusError
    from .api.registry.kinds import kind_named
    from .api.registry.registry import Registry
    from .api.registry.served import Served, runtime_config, runtime_config_faults
    from .controllers.daemonset_controller import DaemonSetController
    from .controllers.device_taint_eviction import DeviceTaintEviction
    from .controllers.garbage_collector import GarbageCollector, PodGarbageCollector
    from .controllers.namespaces import NamespaceController
    from .controllers.node_lifecycle import NodeLifecycle, TaintEviction
    from .controllers.resource_claims import ResourceClaimController
    from .node_logs import NodeLogs
    from .objects.events import EVENT_TTL_S
    from .objects.nodes import KubeletEndpoint
    from .objects.objects import JSON, Key, Objects, WallTime, Written
    from .objects.pod_json import pod_key, read_pod
    from .scheduler.scheduler import Scheduler
    from .store import Store
    from .strategies.priority_classes import ensure_priority_classes
    from .strategies.table import all_strategies
else:
    from .._internal import lazy

    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            ".api.decoding.schema": ("FieldFault", "field_faults"),
            ".api.endpoints.listener": ("HOST", "HttpListener"),
            ".api.endpoints.server": ("ApiServer",),
            ".api.errors": ("StatusError",),
            ".api.registry.kinds": ("kind_named",),
            ".api.registry.registry": ("Registry",),
            ".api.registry.served": ("Served", "runtime_config", "runtime_config_faults"),
            ".controllers.daemonset_controller": ("DaemonSetController",),
            ".controllers.device_taint_eviction": ("DeviceTaintEviction",),
            ".controllers.garbage_collector": ("GarbageCollector", "PodGarbageCollector"),
            ".controllers.namespaces": ("NamespaceController",),
            ".controllers.node_lifecycle": ("NodeLifecycle", "TaintEviction"),
            ".controllers.resource_claims": ("ResourceClaimController",),
            ".node_logs": ("NodeLogs",),
            ".objects.events": ("EVENT_TTL_S",),
            ".objects.nodes": ("KubeletEndpoint",),
            ".objects.objects": ("JSON", "Key", "Objects", "WallTime", "Written"),
            ".objects.pod_json": ("pod_key", "read_pod"),
            ".scheduler.scheduler": ("Scheduler",),
            ".store": ("Store",),
            ".strategies.priority_classes": ("ensure_priority_classes",),
            ".strategies.table": ("all_strategies",),
        },
    )

__all__ = [
    "EVENT_TTL_S",
    "HOST",
    "JSON",
    "ApiServer",
    "DaemonSetController",
    "DeviceTaintEviction",
    "FieldFault",
    "GarbageCollector",
    "HttpListener",
    "Key",
    "KubeletEndpoint",
    "NamespaceController",
    "NodeLifecycle",
    "NodeLogs",
    "Objects",
    "PodGarbageCollector",
    "Registry",
    "ResourceClaimController",
    "Scheduler",
    "Served",
    "StatusError",
    "Store",
    "TaintEviction",
    "WallTime",
    "Written",
    "all_strategies",
    "ensure_priority_classes",
    "field_faults",
    "kind_named",
    "pod_key",
    "read_pod",
    "runtime_config",
    "runtime_config_faults",
]
