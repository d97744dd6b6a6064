"""What a kubelet's PodResources API says, as plain data that may travel as JSON: the same in every world."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from simkubelet.apis.podresources import (
    AllocatableResourcesResponse,
    ContainerDevices,
    GetPodResourcesResponse,
    ListPodResourcesResponse,
    PodResources,
)

from ...trace.snapshot import PlacedIds, together

NAMESPACE: Final = "default"
"""Of a story's pods."""


@dataclass(frozen=True, slots=True)
class PodResourcesAnswers:
    """The answers of a kubelet; empty where none answers.

    Attributes:
        pods: Pod -> container -> devices, as List has them.
        allocatable: Those that pods may get at all.
        get: Pod -> the devices of its containers, or the text of an error, for pods that were asked for.
    """

    pods: Mapping[str, Mapping[str, PlacedIds]] = field(default_factory=dict)
    allocatable: PlacedIds = field(default_factory=dict)
    get: Mapping[str, PlacedIds | str] = field(default_factory=dict)


def answers_of(
    listed: ListPodResourcesResponse,
    allocatable: AllocatableResourcesResponse,
    got: Mapping[str, GetPodResourcesResponse | str],
) -> PodResourcesAnswers:
    """The answers to a List, a GetAllocatableResources and some Gets; of a Get that failed the text of the error."""
    return PodResourcesAnswers(
        {_key(pod): _containers(pod) for pod in listed.pod_resources},
        _placed(allocatable.devices),
        {
            pod: answer if isinstance(answer, str) else together(_containers(answer.pod_resources).values())
            for pod, answer in got.items()
        },
    )


def _key(pod: PodResources) -> str:
    return pod.name if pod.namespace == NAMESPACE else f"{pod.namespace}/{pod.name}"


def _containers(pod: PodResources) -> dict[str, PlacedIds]:
    return {container.name: _placed(container.devices) for container in pod.containers}


def _placed(entries: Iterable[ContainerDevices]) -> dict[str, dict[str, tuple[int, ...]]]:
    """Devices with their NUMA nodes; the kubelet names a device once for each."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for entry in entries:
        devices = found.setdefault(entry.resource_name, {})
        for device in entry.device_ids:
            nodes = {*devices.get(device, ()), *(node.ID for node in entry.topology.nodes)}
            devices[device] = tuple(sorted(nodes))
    return found
