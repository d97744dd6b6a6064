"""Answers of the PodResources API as a story sees them, here and after a journey as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

from scenarios.backends.world.pod_resources import PodResourcesAnswers, answers_of
from simkubelet.apis import podresources as api


def container(name: str, *devices: api.ContainerDevices) -> api.ContainerResources:
    return api.ContainerResources(name=name, devices=devices)


def device(device_id: str, *nodes: int) -> api.ContainerDevices:
    topology = api.TopologyInfo(nodes=[api.NUMANode(ID=node) for node in nodes]) if nodes else None
    return api.ContainerDevices(resource_name="x/gpu", device_ids=[device_id], topology=topology)


POD = api.PodResources(
    name="p", namespace="default", containers=[container("a", device("0", 1), device("0", 0)), container("b")]
)


def test_device_is_listed_once_with_all_its_nodes() -> None:
    elsewhere = api.PodResources(name="p", namespace="team", containers=[container("a", device("1"))])
    listed = api.ListPodResourcesResponse(pod_resources=[POD, elsewhere])
    allocatable = api.AllocatableResourcesResponse(devices=[device("0", 0, 1), device("1")])

    answers = answers_of(listed, allocatable, {})

    assert answers.pods == {"p": {"a": {"x/gpu": {"0": (0, 1)}}, "b": {}}, "team/p": {"a": {"x/gpu": {"1": ()}}}}
    assert answers.allocatable == {"x/gpu": {"0": (0, 1), "1": ()}}


def test_get_returns_all_containers_or_an_error_and_survives_json() -> None:
    both = api.PodResources(containers=[container("a", device("0")), container("b", device("1", 2))])
    got = {"p": api.GetPodResourcesResponse(pod_resources=both), "q": "not found"}

    answers = answers_of(api.ListPodResourcesResponse(), api.AllocatableResourcesResponse(), got)

    assert answers.get == {"p": {"x/gpu": {"0": (), "1": (2,)}}, "q": "not found"}
    assert PodResourcesAnswers(**json.loads(json.dumps(asdict(answers)))).get == {
        "p": {"x/gpu": {"0": [], "1": [2]}},
        "q": "not found",
    }
