"""Whatever owns what, nothing stays whose owners are gone, and no owner waits for what is gone or waits for it.

Only objects that were all to wait for their dependents before the collector came wait for each other, as in a cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import pytest
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
rings = st.tuples(st.just("own"), st.sampled_from(NAMES), st.sampled_from(NAMES))
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

    def own(self, name: str, owner: str) -> None:
        """Give an object an owner that came after it."""
        metadata = self.there[owner]["metadata"]
        reference = {
            "apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": metadata["uid"], "blockOwnerDeletion": True,
        }  # fmt: skip

        def owned(found: JSON) -> JSON:
            return {**found, "metadata": {**found["metadata"], "ownerReferences": [reference]}}

        self.registry.update(CONFIG_MAPS, "default", name, owned)

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
@given(st.lists(creations | deletions | releases | rings, max_size=25), st.integers(1, 3))
async def test_nothing_outlives_its_owners(steps: list[tuple[str, str, object]], at_once: int) -> None:
    garden = Garden()
    running = asyncio.ensure_future(garden.collector.run())
    for number, (verb, name, argument) in enumerate(steps):
        with suppress(KeyError, StatusError):
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
            blocking = [other for other in there.values() if one["metadata"]["uid"] in blocked_by(other)]
            assert blocking
            assert all(other["metadata"].get("deletionTimestamp") for other in blocking)


def blocked_by(dependent: JSON) -> list[str]:
    references = dependent["metadata"].get("ownerReferences", ())
    return [reference["uid"] for reference in references if reference["blockOwnerDeletion"]]


@asynccontextmanager
async def collecting() -> AsyncIterator[Garden]:
    garden = Garden()
    running = asyncio.ensure_future(garden.collector.run())
    try:
        yield garden
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@pytest.mark.parametrize("length", [2, 3, 200])
async def test_circle_of_owners_ends_in_foreground(length: int) -> None:
    names = [f"c{number:03}" for number in range(length)]
    async with collecting() as garden:
        garden.create(names[0], [])
        for owner, name in pairwise(names):
            garden.create(name, [owner])
        garden.own(names[0], names[-1])
        await settled(garden)

        garden.delete(names[0], "foregroundDeletion")
        await settled(garden)

        assert not garden.there


@pytest.mark.parametrize("finalizer", FINALIZERS)
async def test_others_have_their_turn_while_many_dependents_are_looked_at(finalizer: str | None) -> None:
    dependents = {f"d{number}" for number in range(450)}
    async with collecting() as garden:
        garden.create("owner", [])
        for name in dependents:
            garden.create(name, ["owner"])
        await settled(garden)

        garden.delete("owner", finalizer)
        versions = [garden.registry.objects.version]
        while len(versions) < 10 or versions[-10] != versions[-1]:
            await asyncio.sleep(0)
            versions.append(garden.registry.objects.version)

        assert set(garden.there) == (dependents if finalizer == "orphan" else set())
        assert max(after - before for before, after in pairwise(versions)) <= 250


async def test_owner_that_goes_while_its_dependents_are_orphaned_is_no_failure() -> None:
    async with collecting() as garden:
        garden.create("owner", [])
        for number in range(450):
            garden.create(f"d{number}", ["owner"])
        await settled(garden)

        garden.delete("owner", "orphan")
        await asyncio.sleep(0)
        assert any("ownerReferences" not in one["metadata"] for name, one in garden.there.items() if name != "owner")
        garden.registry.update(
            CONFIG_MAPS, "default", "owner", lambda one: {**one, "metadata": {**one["metadata"], "finalizers": []}}
        )
        await settled(garden)

        assert "owner" not in garden.there


async def test_dependent_with_another_owner_stays() -> None:
    async with collecting() as garden:
        for name, owners in {"a": [], "b": [], "both": ["a", "b"]}.items():
            garden.create(name, owners)

        garden.delete("a", "foregroundDeletion")
        await settled(garden)

        assert list(garden.there) == ["b", "both"]
        assert [one["name"] for one in garden.there["both"]["metadata"]["ownerReferences"]] == ["b"]


@pytest.mark.parametrize(("namespace", "kind"), [("default", "Wheel"), ("", "ConfigMap")])
async def test_dependent_of_an_owner_that_cannot_be_looked_up_stays(namespace: str, kind: str) -> None:
    owner = {"apiVersion": "v1", "kind": kind, "name": "x", "uid": "x"}
    metadata = {"name": "one", "ownerReferences": [owner]}
    async with collecting() as garden:
        dependent = CONFIG_MAPS if namespace else kind_named("namespaces")
        garden.registry.create(dependent, namespace, {"metadata": metadata})
        await settled(garden)

        found = garden.registry.get(dependent, namespace, "one")
        assert found["metadata"]["ownerReferences"] == [owner]
