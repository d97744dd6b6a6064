"""A DaemonSet's life in a cluster without kubelets: its pods, revisions and status follow what is written."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from simkubelet.cluster.api.registry.kinds import kind_named
from simkubelet.cluster.api.registry.registry import DeleteOptions, Registry
from simkubelet.cluster.controllers.daemonset_controller import DaemonSetController
from simkubelet.cluster.controllers.garbage_collector import GarbageCollector
from simkubelet.cluster.objects.events import EventRecorder
from simkubelet.cluster.objects.objects import Key, Objects, WallTime
from simkubelet.cluster.strategies.daemonsets import DaemonSetStrategy
from simkubelet.cluster.strategies.table import server_rules
from simkubelet.model.clock import ManualClock
from tests.support.patience import LIMIT_S

DAEMON_SETS, PODS, NODES = map(kind_named, ("daemonsets.apps", "pods", "nodes"))


class Cluster:
    def __init__(self, nodes: int) -> None:
        self.clock = ManualClock()
        self.objects = Objects(WallTime(self.clock))
        self.registry = Registry(self.objects, {"daemonsets.apps": DaemonSetStrategy(server_rules())})
        self.objects.create(Key("namespaces", "", "default"), {"kind": "Namespace"})
        for n in range(nodes):
            self.add_node(f"n{n + 1}")

    def add_node(self, name: str) -> None:
        self.registry.create(NODES, "", {"metadata": {"name": name}, "spec": {}})

    def apply(self, image: str = "plugin:1", **spec: Any) -> None:
        labels = {"app": "plugin"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
        body = {"metadata": {"name": "plugin"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
        if self.objects.get(DAEMON_SETS.key("default", "plugin")) is None:
            body["spec"] |= spec
            self.registry.create(DAEMON_SETS, "default", body)
        else:
            change = {"template": template, **spec}
            self.registry.update(
                DAEMON_SETS, "default", "plugin", lambda old: {**old, "spec": {**old["spec"], **change}}
            )

    @property
    def pods(self) -> list[dict[str, Any]]:
        return self.objects.all_of("pods")

    @property
    def status(self) -> Counter[str]:
        """The counts; those that are left out are 0."""
        found = self.objects.get(DAEMON_SETS.key("default", "plugin"))
        assert found is not None
        return Counter(found["status"])

    def images(self) -> list[str]:
        return sorted(pod["spec"]["containers"][0]["image"] for pod in self.pods)

    def make_ready(self) -> None:
        """What kubelets would do: every pod is bound and ready."""
        for pod in self.pods:
            (term,) = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
                "nodeSelectorTerms"
            ]
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": self.objects.wall_time.now()}
            bound = {**pod["spec"], "nodeName": term["matchFields"][0]["values"][0]}
            new = {**pod, "spec": bound, "status": {"phase": "Running", "conditions": [ready]}}
            self.objects.replace(PODS.key("default", pod["metadata"]["name"]), new)

    def fail_pods(self) -> None:
        for pod in self.pods:
            key = PODS.key("default", pod["metadata"]["name"])
            self.objects.replace(key, {**pod, "status": {"phase": "Failed"}})

    def reasons(self) -> list[str]:
        return [event["reason"] for event in self.objects.all_of("events")]

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not is_so():
                seen = self.objects.change.count
                await asyncio.sleep(0)
                if self.objects.change.count == seen and not is_so():
                    await self.objects.change.wait(seen)


@asynccontextmanager
async def cluster(nodes: int) -> AsyncIterator[Cluster]:
    world = Cluster(nodes)
    controller = DaemonSetController(world.registry, world.clock, EventRecorder(world.objects))
    tasks = [asyncio.create_task(controller.run()), asyncio.create_task(GarbageCollector(world.registry).run())]
    try:
        yield world
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results), results


async def test_every_node_gets_a_pod_also_one_that_joins() -> None:
    async with cluster(2) as world:
        world.apply()
        await world.until(lambda: len(world.pods) == 2)
        world.make_ready()
        await world.until(lambda: world.status["numberAvailable"] == 2)

        world.add_node("n3")

        await world.until(lambda: len(world.pods) == 3)
        await world.until(lambda: world.status["desiredNumberScheduled"] == 3)
        assert world.status["numberUnavailable"] == 1
        assert world.reasons().count("SuccessfulCreate") == 3


async def test_new_template_replaces_pods_one_node_after_the_other() -> None:
    async with cluster(2) as world:
        world.apply("plugin:1")
        await world.until(lambda: len(world.pods) == 2)
        world.make_ready()
        await world.until(lambda: world.status["numberAvailable"] == 2)

        world.apply("plugin:2")
        await world.until(lambda: world.images() == ["plugin:1", "plugin:2"])
        world.make_ready()
        await world.until(lambda: world.images() == ["plugin:2", "plugin:2"])
        world.make_ready()

        await world.until(lambda: world.status["updatedNumberScheduled"] == 2)
        revisions = world.objects.all_of("controllerrevisions.apps")
        assert sorted(revision["revision"] for revision in revisions) == [1, 2]


async def test_template_of_before_is_the_newest_revision_again() -> None:
    async with cluster(1) as world:
        for image in ("plugin:1", "plugin:2", "plugin:1"):
            world.apply(image)
            await world.until(lambda image=image: world.images() == [image])  # type: ignore[misc]

        revisions = world.objects.all_of("controllerrevisions.apps")
        images = {
            revision["revision"]: revision["data"]["spec"]["template"]["spec"]["containers"][0]["image"]
            for revision in revisions
        }
        assert images == {2: "plugin:2", 3: "plugin:1"}


async def test_on_delete_replaces_a_pod_only_when_it_is_deleted() -> None:
    async with cluster(1) as world:
        world.apply("plugin:1", updateStrategy={"type": "OnDelete"})
        await world.until(lambda: world.images() == ["plugin:1"])
        world.apply("plugin:2")
        await world.until(lambda: world.status["observedGeneration"] == 2)
        assert world.images() == ["plugin:1"]

        world.registry.delete(PODS, "default", world.pods[0]["metadata"]["name"])

        await world.until(lambda: world.images() == ["plugin:2"])


async def test_failed_pods_are_replaced_later_and_later() -> None:
    async with cluster(1) as world:
        world.apply()
        await world.until(lambda: len(world.pods) == 1)
        first = world.pods[0]["metadata"]["name"]
        world.fail_pods()
        await world.until(lambda: [pod["metadata"]["name"] for pod in world.pods] not in ([], [first]))

        world.fail_pods()
        second = world.pods[0]["metadata"]["name"]
        await world.clock.advance(0.9)
        assert [pod["metadata"]["name"] for pod in world.pods] == [second]
        await world.clock.advance(0.2)

        await world.until(lambda: [pod["metadata"]["name"] for pod in world.pods] not in ([], [second]))
        assert "FailedDaemonPod" in world.reasons()


async def test_deleting_the_set_deletes_its_pods_and_revisions() -> None:
    async with cluster(2) as world:
        world.apply()
        await world.until(lambda: len(world.pods) == 2)

        world.registry.delete(DAEMON_SETS, "default", "plugin")

        await world.until(lambda: not world.pods and not world.objects.all_of("controllerrevisions.apps"))


async def test_orphaned_pods_stay_without_their_owner() -> None:
    async with cluster(1) as world:
        world.apply()
        await world.until(lambda: len(world.pods) == 1)

        world.registry.delete(DAEMON_SETS, "default", "plugin", DeleteOptions(finalizer="orphan"))

        await world.until(lambda: not world.objects.all_of("daemonsets.apps"))
        assert [pod["metadata"].get("ownerReferences") for pod in world.pods] == [None]


async def test_set_that_is_deleted_in_the_foreground_goes_after_its_pods() -> None:
    async with cluster(1) as world:
        world.apply()
        await world.until(lambda: len(world.pods) == 1)

        world.registry.delete(DAEMON_SETS, "default", "plugin", DeleteOptions(finalizer="foregroundDeletion"))

        await world.until(lambda: not world.objects.all_of("daemonsets.apps"))
        assert not world.pods
