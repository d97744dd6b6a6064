"""Fed in: writes to the objects of a cluster; observed: what the controller of namespaces makes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from simkubelet.cluster import all_strategies
from simkubelet.cluster.api.registry.kinds import kind_named
from simkubelet.cluster.api.registry.registry import Registry
from simkubelet.cluster.controllers.namespaces import NamespaceController
from simkubelet.cluster.objects.objects import Objects, WallTime
from simkubelet.model.clock import ManualClock

_NAMESPACES, _ACCOUNTS = kind_named("namespaces"), kind_named("serviceaccounts")
_CONFIG_MAPS = kind_named("configmaps")


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    objects = Objects(WallTime(ManualClock()))
    registry = Registry(objects, all_strategies(objects))
    controller = NamespaceController(registry, "PEM")
    controller.ensure_namespaces()
    running = asyncio.create_task(controller.run())
    yield registry
    running.cancel()


async def _settle() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


async def test_what_each_namespace_has_comes_back(registry: Registry) -> None:
    await _settle()
    objects = registry.objects
    objects.remove(_ACCOUNTS.key("default", "default"))
    objects.remove(_CONFIG_MAPS.key("kube-system", "kube-root-ca.crt"))
    registry.create(_NAMESPACES, "", {"metadata": {"name": "new"}})
    await _settle()

    assert [one["metadata"]["namespace"] for one in objects.all_of(_ACCOUNTS.key_kind)] == [
        *("default", "kube-node-lease", "kube-public", "kube-system", "new"),
    ]
    assert [one["data"] for one in objects.all_of(_CONFIG_MAPS.key_kind)] == [{"ca.crt": "PEM"}] * 5


async def test_deleted_namespace_is_not_furnished_again(registry: Registry) -> None:
    await _settle()
    registry.create(_NAMESPACES, "", {"metadata": {"name": "short"}})
    await _settle()
    registry.delete(_NAMESPACES, "", "short")
    registry.delete(_ACCOUNTS, "short", "default")
    await _settle()

    assert registry.objects.all_of(_ACCOUNTS.key_kind, "short") == []


async def test_other_writes_do_not_wake_it(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    await _settle()
    looks: list[None] = []
    monkeypatch.setattr(NamespaceController, "_settle", lambda controller: looks.append(None))
    registry.create(_CONFIG_MAPS, "default", {"metadata": {"name": "other"}})
    await _settle()
    assert not looks

    registry.create(_NAMESPACES, "", {"metadata": {"name": "new"}})
    await _settle()
    assert looks
