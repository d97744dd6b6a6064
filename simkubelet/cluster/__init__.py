"""The cluster around simulated nodes: its objects, what kubelets see of them (`store`) and the scheduler."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from .._internal.http_listener import HOST, HttpListener
    from .api.decoding.schema import FieldFault, field_faults
    from .api.endpoints.server import ApiServer
    from .api.errors import StatusError
    from .api.registry.kinds import kind_named
    from .api.registry.registry import Registry
    from .api.registry.served import Served, runtime_config, runtime_config_faults
    from .controllers.daemonset_controller import DaemonSetController
    from .controllers.device_taint_eviction import DeviceTaintEviction
    from .controllers.garbage_collector import GarbageCollector, PodGarbageCollector
    from .controllers.namespace_deletion import NamespaceDeletion
    from .controllers.namespaces import NamespaceController
    from .controllers.node_lifecycle import NodeLifecycle, TaintEviction
    from .controllers.resource_claims import ResourceClaimController
    from .node_logs import NodeLogs
    from .objects.device_selector import check_selectors
    from .objects.events import EVENT_TTL_S
    from .objects.nodes import KubeletEndpoint
    from .objects.objects import JSON, Key, Objects, WallTime, Written
    from .objects.pod_json import pod_key, read_pod
    from .scheduler.scheduler import Scheduler
    from .store import Store
    from .strategies.pods import pod_refusals
    from .strategies.priority_classes import ensure_priority_classes
    from .strategies.table import all_strategies, server_rules
else:
    from .._internal import lazy

    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            ".._internal.http_listener": ("HOST", "HttpListener"),
            ".api.decoding.schema": ("FieldFault", "field_faults"),
            ".api.endpoints.server": ("ApiServer",),
            ".api.errors": ("StatusError",),
            ".api.registry.kinds": ("kind_named",),
            ".api.registry.registry": ("Registry",),
            ".api.registry.served": ("Served", "runtime_config", "runtime_config_faults"),
            ".controllers.daemonset_controller": ("DaemonSetController",),
            ".controllers.device_taint_eviction": ("DeviceTaintEviction",),
            ".controllers.garbage_collector": ("GarbageCollector", "PodGarbageCollector"),
            ".controllers.namespace_deletion": ("NamespaceDeletion",),
            ".controllers.namespaces": ("NamespaceController",),
            ".controllers.node_lifecycle": ("NodeLifecycle", "TaintEviction"),
            ".controllers.resource_claims": ("ResourceClaimController",),
            ".node_logs": ("NodeLogs",),
            ".objects.device_selector": ("check_selectors",),
            ".objects.events": ("EVENT_TTL_S",),
            ".objects.nodes": ("KubeletEndpoint",),
            ".objects.objects": ("JSON", "Key", "Objects", "WallTime", "Written"),
            ".objects.pod_json": ("pod_key", "read_pod"),
            ".scheduler.scheduler": ("Scheduler",),
            ".store": ("Store",),
            ".strategies.priority_classes": ("ensure_priority_classes",),
            ".strategies.pods": ("pod_refusals",),
            ".strategies.table": ("all_strategies", "server_rules"),
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
    "NamespaceDeletion",
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
    "check_selectors",
    "ensure_priority_classes",
    "field_faults",
    "kind_named",
    "pod_key",
    "pod_refusals",
    "read_pod",
    "runtime_config",
    "runtime_config_faults",
    "server_rules",
]
