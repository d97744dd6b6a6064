"""Claims for extended resources that DRA drivers serve: what they are named for, and what they ask for.

Each DeviceClass stands for the resource of its name below ``deviceclass.resource.kubernetes.io/``, and for the one that
its ``extendedResourceName`` names. Where a pod asks for such a resource and its node has none of it, the scheduler
makes a claim for the pod. A request of the claim is for one container and resource. Init containers that end are given
devices of the containers after them first, and what they need beyond that is one request for all of them.

Source: pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go;
k8s.io/dynamic-resource-allocation, deviceclass/extendedresourcecache (kubernetes v1.35.4, v1.36.3, v1.37.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ....model.pod import Container, ContainerKind
from ....model.resources import DEVICE_CLASS_PREFIX, ResourceName
from ...objects.objects import JSON
from ..cluster_state import PodInfo

__all__ = ["IS_FOR_EXTENDED", "claim_for", "classes_by_resource", "left_to_claims"]

IS_FOR_EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"
"""An annotation of such claims."""

_IN_MEMORY = "<extended-resources>"
"""Its name until it is created; no object can have it."""


def classes_by_resource(classes: Iterable[JSON]) -> dict[ResourceName, str]:
    """Extended resource -> the class that stands for it; of several the newest, then the first by name."""
    found: dict[ResourceName, str] = {}
    by_name = sorted(classes, key=lambda one: one["metadata"]["name"], reverse=True)
    for one in sorted(by_name, key=lambda one: str(one["metadata"].get("creationTimestamp") or "")):
        name = one["metadata"]["name"]
        found[ResourceName(f"{DEVICE_CLASS_PREFIX}{name}")] = name
        if resource := (one.get("spec") or {}).get("extendedResourceName"):
            found[ResourceName(resource)] = name
    return found


def left_to_claims(
    resources: Iterable[ResourceName], allocatable: Mapping[ResourceName, int]
) -> frozenset[ResourceName]:
    """Of extended resources that classes stand for, those of which a node has none: claims serve them there."""
    return frozenset(name for name in resources if not allocatable.get(name))


def claim_for(pod: PodInfo, classes: Mapping[ResourceName, str]) -> tuple[JSON, Sequence[JSON]]:
    """The claim of a pod as it is to be created, and the ``requestMappings`` for the pod's status.

    Args:
        pod: the pod.
        classes: the resources that are served by drivers -> the class of each.
    """
    requests: list[_Request] = []
    mappings: list[JSON] = []
    for resource in sorted(classes):
        asked = _Asked(pod.pod.containers, resource)
        requests += asked.requests
        mappings += asked.mappings
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    metadata = {
        "namespace": pod.namespace,
        "name": _IN_MEMORY,
        "generateName": f"{pod.name}-extended-resources-",
        "annotations": {IS_FOR_EXTENDED: "true"},
        "ownerReferences": [owner],
    }
    wanted = [one.as_json(classes[one.resource]) for one in sorted(requests, key=lambda one: one.name)]
    return {"metadata": metadata, "spec": {"devices": {"requests": wanted}}}, mappings


@dataclass(slots=True)
class _Request:
    name: str
    resource: ResourceName
    count: int

    def as_json(self, class_name: str) -> JSON:
        exactly = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": self.count}
        return {"name": self.name, "exactly": exactly}


class _Asked:
    """The requests of a pod's claim for one resource.

    Attributes:
        requests: those that are made.
        mappings: which of them give devices to which container.
    """

    def __init__(self, containers: Sequence[Container], resource: ResourceName) -> None:
        self._resource = resource
        lasting: dict[int, _Request] = {}
        self.mappings: list[JSON] = []
        for index, container in enumerate(containers):
            if container.kind is not ContainerKind.INIT and (own := self._request(index, container, 0)) is not None:
                lasting[index] = own
                self._map(container, own)
        largest: _Request | None = None
        beyond: list[JSON] = []
        for index, container in enumerate(containers):
            if container.kind is not ContainerKind.INIT:
                continue
            count = 0
            for later, one in lasting.items():
                if later >= index and count < container.requests.get(resource, 0):
                    count += one.count
                    self._map(container, one)
            if (own := self._request(index, container, count)) is not None:
                largest = own if largest is None or largest.count < own.count else largest
                self._map(container, own)
                beyond.append(self.mappings[-1])
        for mapping in beyond:
            mapping["requestName"] = largest.name if largest is not None else ""
        self.requests = [*([] if largest is None else [largest]), *lasting.values()]

    def _request(self, index: int, container: Container, has: int) -> _Request | None:
        """What a container needs beyond the devices that it may use already; None where that is nothing."""
        count = container.requests.get(self._resource, 0) - has
        if count <= 0:
            return None
        place = sorted(container.requests).index(self._resource)
        return _Request(f"container-{index}-request-{place}", self._resource, count)

    def _map(self, container: Container, request: _Request) -> None:
        mapping = {"containerName": container.name, "resourceName": self._resource, "requestName": request.name}
        self.mappings.append(mapping)
