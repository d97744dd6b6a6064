"""What a Pod of the API tells: how its node's kubelet knows it, its containers, its devices' health."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from .api import Object

_MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of a pod that a kubelet made itself for a static one, with the id that it has for that one."""


def is_mirror(item: Object) -> bool:
    """Whether a kubelet tells of a static pod by it."""
    return _MIRROR in item["metadata"].get("annotations", {})


def uid_on_node(item: Object) -> str:
    """The id that a kubelet has for a pod: a static one's is its own, not that of its mirror."""
    metadata = item["metadata"]
    uid: str = metadata.get("annotations", {}).get(_MIRROR, metadata["uid"])
    return uid


def container_statuses(item: Object) -> list[Any]:
    """Of all containers, in the order of their start: a kubelet sorts those of the app by name."""
    status, spec = item.get("status", {}), item["spec"]
    found = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    order = [container["name"] for container in (*spec.get("initContainers", ()), *spec["containers"])]
    return sorted(found, key=lambda one: order.index(one["name"]))


def device_health(item: Object) -> dict[str, dict[str, str]]:
    """Resource -> device -> health, as the pod's status tells it."""
    told: dict[str, dict[str, str]] = {}
    for status in container_statuses(item):
        resources: Iterable[Any] = status.get("allocatedResourcesStatus", ())
        for resource in resources:
            healths = {device["resourceID"]: device["health"] for device in resource.get("resources", ())}
            told.setdefault(resource["name"], {}).update(healths)
    return told
