"""Whatever owns what, nothing stays whose owners are gone, and no owner waits for what is gone."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from simkubelet.cluster.api.errors import StatusError
from simkubelet.cluster.api.registry.kinds import kind_named
from simkubelet.cluster.api.registry.registry import DeleteOptions, Registry
from simkubelet.cluster.controllers.garbage_collector import GarbageCollector
from simkubelet.cluster.controllers.namespaces import NamespaceController
from simkubelet.cluster.objects.objects import JSON, Objects, WallTime
from simkubelet.model.clock import ManualClock

CONFIG_MAPS = kind_named("configmaps")
NAMES = [f"c{number}" for number in range(6)]
FINALIZERS = [None, "orphan", "foregroundDeletion"]
creations = st.tuples(
    st.just("create"), st.sampled_from(NAMES), st.lists(st.sampled_from([*NAMES, "none"]), max_size=2)
)
deletions = st.tuples(st.just("delete"), st.sampled_from(NAMES), st.sampled_from(FINALIZERS))
releases = st.tuples(st.just("release"), st.sampled_from(NAMES), st.none())


class Garden:
    """ConfigMaps that own each other, and what looks after them."""

    def __init__(self) -> None:
        self.registry = Registry(Objects(WallTime(ManualClock())), {})
        NamespaceController(self.registry).ensure_namespaces()
        self.collector = GarbageCollector(self.registry)

    @property
    def there(self) -> dict[str, JSON]:
        return {one["metadata"]["name"]: one for one in self.registry.objects.all_of("configmaps")}

    def create(self, name: str, owners: list[str]) -> None:
        uids = {one: metadata["metadata"]["uid"] for one, metadata in self.there.items()}
        references = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": one,
                "uid": uids.get(one, "gone"),
                "blockOwnerDeletion": True,
            }
            for one in dict.fromkeys(owners)
        ]
        self.registry.create(CONFIG_MAPS, "default", {"metadata": {"name": name, "ownerReferences": references}})

    def delete(self, name: str, finalizer: str | None) -> None:
        self.registry.delete(CONFIG_MAPS, "default", name, DeleteOptions(finalizer=finalizer))

    def release(self, name: str, _: None) -> None:
        """Take the owners of an object away."""

        def without_owners(found: JSON) -> JSON:
            metadata = {field: value for field, value in found["metadata"].items() if field != "ownerReferences"}
            return {**found, "metadata": metadata}

        self.registry.update(CONFIG_MAPS, "default", name, without_owners)


async def settled(garden: Garden) -> None:
    """Let the collector work until it waits."""
    version = -1
    while version != garden.registry.objects.version:
        version = garden.registry.objects.version
        for _ in range(5):
            await asyncio.sleep(0)


@settings(deadline=None)
@given(st.lists(creations | deletions | releases, max_size=25), st.integers(1, 3))
async def test_nothing_outlives_its_owners(steps: list[tuple[str, str, object]], at_once: int) -> None:
    garden = Garden()
    running = asyncio.ensure_future(garden.collector.run())
    for number, (verb, name, argument) in enumerate(steps):
        with suppress(StatusError):
            getattr(garden, verb)(name, argument)
        if number % at_once == 0:
            await settled(garden)
    await settled(garden)
    there = garden.there
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running

    uids = {one["metadata"]["uid"] for one in there.values()}
    for one in there.values():
        owners = [reference["uid"] for reference in one["metadata"].get("ownerReferences", ())]
        assert not owners or uids.intersection(owners)
        if one["metadata"].get("deletionTimestamp"):
            assert one["metadata"]["finalizers"] == ["foregroundDeletion"]
            assert any(
                reference["uid"] == one["metadata"]["uid"]
                for other in there.values()
                for reference in other["metadata"].get("ownerReferences", ())
            )
