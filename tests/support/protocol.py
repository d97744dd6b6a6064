"""Every kubelet command of the line protocol once, in an order in which each can do its work.

Those of `WITHOUT_PLUGIN` come first, then a plugin registers for `RESOURCE` with `DEVICES`, then come the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

RESOURCE = "example.com/stub"
DEVICES = ("dev-0", "dev-1", "dev-2", "dev-3")
CAPACITY = ("capacity", "allocatable", "deleted")


@dataclass(frozen=True)
class Example:
    """A command with all fields that it takes.

    Attributes:
        needed: the fields that cannot be left out.
        answered: the fields of the answer, beside those that all have.
        fails: the command answers ok: false, and has to.
    """

    cmd: str
    fields: dict[str, Any] = field(default_factory=dict)
    needed: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()
    fails: bool = False


_SETTINGS = {
    "sources_ready": True,
    "running": [{"pod_uid": "u0", "container": "c", "container_id": "u0-c", "running": True}],
    "topology_policy": "best-effort",
    "topology_scope": "container",
    "topology_options": {"prefer-closest-numa-nodes": "true"},
    "numa": [0, 1],
    "distances": [[10, 20], [20, 10]],
}
_POD = {
    "uid": "u1",
    "name": "pod-1",
    "namespace": "default",
    "init_containers": [{"name": "i", "restartable": True, "limits": {RESOURCE: 1}}],
    "containers": [{"name": "c", "limits": {RESOURCE: "1"}}, {"name": "d", "limits": {}}],
}
_OF_POD = {"pod": "u1"}
_OF_CONTAINER = {"pod": "u1", "container": "c"}
_WATCHED = {"resource": RESOURCE, "endpoint": "none.sock", "versions": ["v1beta2"]}

WITHOUT_PLUGIN = (
    Example("now"),
    Example("stats", answered=("cpu_ms", "rss_kib", "rss_peak_kib")),
    Example(
        "topology",
        {
            "policy": "none",
            "scope": "pod",
            "options": {"prefer-closest-numa-nodes": "true"},
            "numa": [0, 1],
            "distances": [[10, 20], [20, 10]],
        },
    ),
    Example("set_gate", {"name": "ResourceHealthStatus", "value": True}, needed=("name", "value")),
    Example("set_sources_ready", {"value": True}, needed=("value",)),
    Example("start", _SETTINGS),
    Example("stop"),
    Example("restart", _SETTINGS, answered=("stop_us", "start_us")),
    Example("abandon"),
    Example("restart", _SETTINGS, answered=("stop_us", "start_us")),
)
WITH_PLUGIN = (
    Example(
        "wait_capacity",
        {"resource": RESOURCE, "capacity": 4, "allocatable": 4, "timeout_ms": 10_000},
        needed=("resource",),
        answered=(*CAPACITY, "seen_t"),
    ),
    Example("capacity", answered=CAPACITY),
    Example("add_pod", _POD, needed=("uid",)),
    Example("topology_hints", _OF_CONTAINER, needed=("pod", "container"), answered=("hints",)),
    Example("pod_topology_hints", _OF_POD, needed=("pod",), answered=("hints",)),
    Example("set_affinity", {**_OF_CONTAINER, "nodes": [0], "preferred": True}, needed=("pod", "container")),
    Example("get_affinity", _OF_CONTAINER, needed=("pod", "container"), answered=("nodes", "preferred")),
    Example("admit", _OF_POD, needed=("pod",)),
    Example("allocate", _OF_CONTAINER, needed=("pod", "container")),
    Example("run_options", _OF_CONTAINER, needed=("pod", "container"), answered=("options",)),
    Example("devices", _OF_CONTAINER, needed=("pod", "container"), answered=("devices",)),
    Example("allocatable_devices", answered=("devices",)),
    Example("update_allocated"),
    Example(
        "update_plugin_resources",
        {**_OF_POD, "node_allocatable": {RESOURCE: 1}},
        needed=("pod", "node_allocatable"),
        answered=("node_allocatable",),
    ),
    Example("allocated_status", _OF_POD, needed=("pod",), answered=("status",)),
    Example("updates", {"timeout_ms": 0, "want": 0}, answered=("updates",)),
    Example("pod_resources", {"call": "list"}, needed=("call",), answered=("pods",)),
    Example("pod_resources", {"call": "get", "name": "pod-1", "namespace": "default"}, answered=("pod",)),
    Example("pod_resources", {"call": "allocatable"}, answered=("devices",)),
    Example("checkpoint", answered=("text", "bytes")),
    Example("checkpoint_entries", answered=("entries", "registered")),
    Example("checksum", answered=("hashed", "checksum", "stored")),
    Example("fix_checksum", answered=("text", "checksum")),
    Example("write_checkpoint", {"text": "{}"}, needed=("text",), answered=("bytes",)),
    Example("checksum", {"text": "{}"}, answered=("hashed", "checksum", "stored")),
    Example("fix_checksum", {"text": "{}"}, answered=("text", "checksum")),
    Example("should_reset", answered=("value",)),
    Example("health", answered=("name", "healthy")),
    Example("ls", answered=("files",)),
    Example(
        "dump",
        answered=("healthyDevices", "unhealthyDevices", "allocatedDevices", "devicesToReuse", "endpoints", "clients"),
    ),
    Example("watcher_register", _WATCHED, needed=tuple(_WATCHED), answered=("error", "stage"), fails=True),
    Example("watcher_deregister", {"resource": RESOURCE, "endpoint": "stub.sock"}, needed=("resource", "endpoint")),
    Example("age_endpoint", {"resource": RESOURCE, "seconds": 301}, needed=("resource", "seconds")),
    Example("remove_pod", _OF_POD, needed=("pod",)),
    Example("forget_pod", _OF_POD, needed=("pod",)),
)
EXAMPLES = (*WITHOUT_PLUGIN, *WITH_PLUGIN)
