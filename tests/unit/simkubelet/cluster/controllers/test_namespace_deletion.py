"""Fed in: a deletion of a namespace, and time; observed: when what is in it goes, and its conditions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from simkubelet.cluster import all_strategies
from simkubelet.cluster.api.registry.kinds import Kind, kind_named
from simkubelet.cluster.api.registry.registry import Registry
from simkubelet.cluster.controllers.namespace_deletion import NamespaceDeletion
from simkubelet.cluster.objects.events import EventRecorder
from simkubelet.cluster.objects.objects import JSON, Objects, WallTime
from simkubelet.model.clock import ManualClock
from simkubelet.model.version import version

_NAMESPACES, _PODS, _CONFIG_MAPS = kind_named("namespaces"), kind_named("pods"), kind_named("configmaps")
_ACCOUNTS = kind_named("serviceaccounts")


@dataclass
class _World:
    registry: Registry
    clock: ManualClock

    def is_there(self, kind: Kind, name: str) -> bool:
        return self.registry.objects.get(kind.key("short", name)) is not None

    @property
    def namespace(self) -> JSON:
        return self.registry.get(_NAMESPACES, "", "short")

    @property
    def conditions(self) -> Mapping[str, tuple[str, str]]:
        """Condition -> its status and message."""
        found = self.namespace["status"].get("conditions") or ()
        return {one["type"]: (one["status"], one["message"]) for one in found}

    def create_pod(self, name: str, **metadata: object) -> None:
        container = {"name": "main", "image": "none"}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 30, "nodeName": "node-1"}
        self.registry.create(_PODS, "short", {"metadata": {"name": name, **metadata}, "spec": spec})

    def end_pod(self, name: str) -> None:
        """What a kubelet does when the containers have ended."""
        self.registry.objects.remove(_PODS.key("short", name))


@asynccontextmanager
async def _world(release: str) -> AsyncIterator[_World]:
    clock = ManualClock()
    objects = Objects(WallTime(clock))
    registry = Registry(objects, all_strategies(objects))
    for name in ("default", "short"):
        registry.create(_NAMESPACES, "", {"metadata": {"name": name}})
    registry.create(_ACCOUNTS, "short", {"metadata": {"name": "default"}})
    registry.create(_CONFIG_MAPS, "short", {"metadata": {"name": "settings"}})
    registry.create(_CONFIG_MAPS, "default", {"metadata": {"name": "elsewhere"}})
    controller = asyncio.create_task(NamespaceDeletion(registry, clock, version(release)).run())
    try:
        yield _World(registry, clock)
    finally:
        controller.cancel()


@pytest.fixture
async def world() -> AsyncIterator[_World]:
    async with _world("1.34") as made:
        yield made


async def test_namespace_goes_after_five_seconds(world: _World) -> None:
    world.registry.delete(_NAMESPACES, "", "short")
    await world.clock.advance(4.9)
    assert world.is_there(_CONFIG_MAPS, "settings")
    assert world.namespace["status"] == {"phase": "Terminating"}

    await world.clock.advance(0.2)

    assert world.registry.objects.get(_NAMESPACES.key("", "short")) is None
    assert [one["metadata"]["name"] for one in world.registry.objects.all_of("configmaps")] == ["elsewhere"]


async def test_pods_go_first(world: _World) -> None:
    world.create_pod("p")
    world.registry.delete(_NAMESPACES, "", "short")
    await world.clock.advance(5)
    pod = world.registry.get(_PODS, "short", "p")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert world.is_there(_CONFIG_MAPS, "settings")
    # Its conditions are written, and not with the pods: both as a real controller does.
    assert {status for status, _ in world.conditions.values()} == {"False"}

    world.end_pod("p")
    # It looks five seconds after its own write, before half of the grace is over.
    await world.clock.advance(4.9)
    assert world.is_there(_CONFIG_MAPS, "settings")
    await world.clock.advance(0.2)

    assert world.registry.objects.get(_NAMESPACES.key("", "short")) is None


async def test_before_1_33_all_goes_at_once_and_conditions_name_the_pods() -> None:
    async with _world("1.32") as world:
        world.create_pod("p")
        world.registry.delete(_NAMESPACES, "", "short")
        await world.clock.advance(5)

        assert not world.is_there(_CONFIG_MAPS, "settings")
        remaining = "Some resources are remaining: pods. has 1 resource instances"
        assert world.conditions["NamespaceContentRemaining"] == ("True", remaining)


async def test_pod_that_outlives_its_grace_is_an_error(world: _World) -> None:
    world.create_pod("p")
    world.registry.delete(_NAMESPACES, "", "short")
    await world.clock.advance(45)

    assert world.conditions["NamespaceDeletionContentFailure"] == (
        "True",
        "Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: short for gvr: "
        "/v1, Resource=pods",
    )
    world.end_pod("p")
    await world.clock.advance(60)
    assert world.registry.objects.get(_NAMESPACES.key("", "short")) is None


async def test_finalizers_of_what_is_in_it_hold_it(world: _World) -> None:
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    world.registry.create(_CONFIG_MAPS, "short", held)
    world.registry.delete(_NAMESPACES, "", "short")
    await world.clock.advance(5)
    begun = world.conditions
    since = world.namespace["status"]["conditions"]
    await world.clock.advance(60)

    assert begun == {
        "NamespaceDeletionDiscoveryFailure": ("False", "All resources successfully discovered"),
        "NamespaceDeletionGroupVersionParsingFailure": ("False", "All legacy kube types successfully parsed"),
        "NamespaceDeletionContentFailure": (
            "False",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "NamespaceContentRemaining": (
            "True",
            "Some resources are remaining: configmaps. has 1 resource instances",
        ),
        "NamespaceFinalizersRemaining": (
            "True",
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
        ),
    }
    assert world.namespace["status"]["conditions"] == since
    world.registry.update(_CONFIG_MAPS, "short", "held", _without_finalizers)
    await world.clock.advance(8)
    assert world.registry.objects.get(_NAMESPACES.key("", "short")) is None


async def test_finalizer_of_somebody_else_keeps_the_empty_namespace(world: _World) -> None:
    def add(namespace: JSON) -> JSON:
        return {**namespace, "spec": {"finalizers": ["kubernetes", "example.com/mine"]}}

    world.registry.update(_NAMESPACES, "", "short", add, subresource="finalize")
    world.registry.delete(_NAMESPACES, "", "short")
    await world.clock.advance(60)

    assert world.namespace["spec"]["finalizers"] == ["example.com/mine"]
    assert not world.is_there(_CONFIG_MAPS, "settings")
    world.registry.update(_NAMESPACES, "", "short", lambda one: {**one, "spec": {}}, subresource="finalize")
    assert world.registry.objects.get(_NAMESPACES.key("", "short")) is None


async def test_events_are_not_recorded_in_it_any_more(world: _World) -> None:
    recorder = EventRecorder(world.registry.objects)
    about = {"kind": "Pod", "namespace": "short", "name": "p", "uid": "u"}
    recorder.record(about, "Normal", "Started", "It runs", "kubelet")
    world.registry.delete(_NAMESPACES, "", "short")

    recorder.record(about, "Normal", "Started", "It runs", "kubelet")
    recorder.record(about, "Normal", "Killing", "Stopping container main", "kubelet")

    assert [(one["reason"], one["count"]) for one in world.registry.objects.all_of("events")] == [("Started", 2)]


def _without_finalizers(found: JSON) -> JSON:
    return {**found, "metadata": {name: value for name, value in found["metadata"].items() if name != "finalizers"}}
