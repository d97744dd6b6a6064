"""The subresources of pods other than status: binding, eviction and log.

Source: pkg/registry/core/pod/storage/storage.go, ``BindingREST``, eviction.go, ``EvictionREST``,
pkg/registry/core/pod/strategy.go, ``LogLocation`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from ...objects.objects import JSON
from ..errors import FieldError, GroupName, StatusError
from ..registry.kinds import kind_named
from ..registry.registry import DeleteOptions, Registry, Write

__all__ = ["LogOptions", "PodLogs", "bind", "evict", "log_container"]

_PODS = kind_named("pods")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which part of a container's output is asked for.

    Attributes:
        tail_lines: how many of the last lines; all where it is None.
        since_time: lines from this RFC 3339 date on.
        limit_bytes: at most so many bytes.
        timestamps: each line begins with its date.
        previous: of the container's run before this one.
        follow: what comes later too, until the container ends.
    """

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_time: str | None = None
    since_seconds: int | None = None
    limit_bytes: int | None = None


class PodLogs(Protocol):
    """Where a cluster's container output is kept."""

    def read(self, pod: JSON, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The output of one container of a pod that a node has, in pieces of any size.

        Raises:
            StatusError: while the first piece is waited for: the kubelet's refusal.
        """


def bind(registry: Registry, namespace: str, name: str, binding: JSON, write: Write) -> None:
    """Give a pod to the node that a Binding names.

    Raises:
        StatusError: the pod is not there, is bound or goes away.
    """
    metadata = binding.get("metadata", {})
    target = binding.get("target", {})
    if metadata.get("name", "") != name:
        raise StatusError.bad_request("name in URL does not match name in Binding object")
    errors = []
    if target.get("kind") not in (None, "", "Node"):
        errors.append(FieldError.not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(FieldError.required("target.name"))
    if errors:
        texts = list(map(str, errors))
        raise StatusError(500, "", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    pod = registry.get(_PODS, namespace, name)
    about = GroupName("", "pods/binding")
    if metadata.get("uid") and metadata["uid"] != pod["metadata"]["uid"]:
        why = (
            f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {pod['metadata']['uid']}"
        )
        raise StatusError.conflict(_PODS.resource, name, why)
    spec = pod.get("spec", {})
    if pod["metadata"].get("deletionTimestamp"):
        raise StatusError.conflict(about, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise StatusError.conflict(about, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise StatusError.conflict(about, name, f"pod {name} has non-empty .spec.schedulingGates")
    new = copy.deepcopy(pod)
    new["spec"]["nodeName"] = target["name"]
    for part in ("annotations", "labels"):
        if metadata.get(part):
            new["metadata"][part] = {**new["metadata"].get(part, {}), **metadata[part]}
    status = new.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    now = registry.objects.wall_time.now()
    condition: JSON = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    conditions = status.setdefault("conditions", [])
    at = next((i for i, other in enumerate(conditions) if other["type"] == "PodScheduled"), len(conditions))
    if conditions[at:] and conditions[at]["status"] == "True":
        condition["lastTransitionTime"] = conditions[at].get("lastTransitionTime")
    conditions[at : at + 1] = [condition]
    if not write.dry_run:
        registry.objects.replace(_PODS.key(namespace, name), new)


def evict(registry: Registry, namespace: str, name: str, eviction: JSON, options: DeleteOptions, write: Write) -> None:
    """Delete a pod as an Eviction asks; nothing here disrupts too much, as there are no disruption budgets.

    Raises:
        StatusError: there is no such pod.
    """
    if eviction.get("metadata", {}).get("name", "") != name:
        raise StatusError.bad_request("name in URL does not match name in Eviction object")
    registry.delete(_PODS, namespace, name, options, write)


def log_container(pod: JSON, asked: str) -> str:
    """The container whose output is meant.

    Raises:
        StatusError: the pod has no such container, or several and none is named.
    """
    name = pod["metadata"]["name"]
    spec = pod.get("spec", {})
    containers = [container["name"] for container in spec.get("containers", ())]
    init = [container["name"] for container in spec.get("initContainers", ())]
    if not asked:
        if len(containers) == 1:
            return str(containers[0])
        text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(containers)}]"
        if init:
            text += f" or one of the init containers: [{' '.join(init)}]"
        raise StatusError.bad_request(text)
    if asked not in (*containers, *init):
        raise StatusError.bad_request(f"container {asked} is not valid for pod {name}")
    return asked
