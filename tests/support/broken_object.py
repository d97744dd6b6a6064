"""A cluster in which the handling of one object fails, whatever is done with it: that of the name ``broken``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from simkubelet.cluster import (
    JSON,
    DaemonSetController,
    DeviceTaintEviction,
    GarbageCollector,
    Key,
    NamespaceController,
    NamespaceDeletion,
    NodeLifecycle,
    Objects,
    PodGarbageCollector,
    ResourceClaimController,
    Scheduler,
    Store,
    TaintEviction,
    WallTime,
    all_strategies,
    ensure_priority_classes,
)
from simkubelet.cluster.api.registry.registry import Registry
from simkubelet.kubelet import Kubelet
from simkubelet.model.clock import ManualClock
from simkubelet.model.config import KubeletConfig
from simkubelet.model.version import version
from simkubelet.node import NodeContext

__all__ = ["MINOR", "NAMES", "Calls", "World", "break_calls", "handle", "pod", "world"]

NAMES: Final = ("broken", "well")
MINOR: Final = version("1.37")
_LEADS_TO_A_NAME: Final = ("pod", "queued", "driver", "resource", "command", "name", "node", "_config")


@dataclass
class Calls:
    """What a function was called for: how often for the broken object, and how often for others."""

    broken: int = 0
    others: int = 0


def break_calls(monkeypatch: pytest.MonkeyPatch, target: str) -> Calls:
    """Let a function fail for the broken object: ``package.module.Class.method``."""
    path, _, name = target.rpartition(".")
    owner: Any = pytest.MonkeyPatch  # replaced below
    module, _, attribute = path.rpartition(".")
    try:
        owner = __import__(path, fromlist=[name])
    except ModuleNotFoundError:
        owner = getattr(__import__(module, fromlist=[attribute]), attribute)
    original, calls = getattr(owner, name), Calls()

    def call(*args: Any, **options: Any) -> Any:
        if any(_is_broken(one, 3) for one in (*args, *options.values())):
            calls.broken += 1
            raise MemoryError("it is broken")
        calls.others += 1
        return original(*args, **options)

    monkeypatch.setattr(owner, name, call)
    return calls


def _is_broken(value: Any, depth: int) -> bool:
    if "broken" in repr(value):
        return True
    return depth > 0 and any(_is_broken(vars_of, depth - 1) for vars_of in _parts(value))


def _parts(value: Any) -> list[Any]:
    found = (getattr(value, part, None) for part in _LEADS_TO_A_NAME)
    return [one for one in found if one is not None and not callable(one)]


def handle(name: object) -> None:
    """Do nothing with an object, in the place of what is given a function to call."""


def pod(name: str, **spec: Any) -> JSON:
    container = {"name": "c", "image": "none"}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [container], **spec}}


@dataclass
class World:
    """A control plane and the kubelet of ``node-1``, as `simkubelet up` has them, on a manual clock."""

    folder: Path
    clock: ManualClock = field(default_factory=ManualClock)
    loops: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.objects = Objects(WallTime(self.clock))
        self.store = Store(self.objects, lambda event: None)
        self.registry = Registry(self.objects, all_strategies(self.objects, MINOR))
        self.scheduler = Scheduler(self.store, self.clock, MINOR)
        self.manifests = self.folder / "manifests"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        namespaces = NamespaceController(self.registry, "a certificate")
        namespaces.ensure_namespaces()
        ensure_priority_classes(self.registry)
        recorder = self.store.recorder
        works = (
            namespaces,
            NamespaceDeletion(self.registry, self.clock, MINOR),
            NodeLifecycle(self.store, self.clock),
            TaintEviction(self.store, self.clock),
            PodGarbageCollector(self.store, self.clock),
            self.scheduler,
            DaemonSetController(self.registry, self.clock, recorder),
            ResourceClaimController(self.registry, self.clock, recorder, MINOR),
            DeviceTaintEviction(self.store, self.clock, MINOR),
            GarbageCollector(self.registry),
        )
        async with asyncio.TaskGroup() as self.tasks, AsyncExitStack() as self.stack:
            for work in works:
                self.keep(work.run())
            self.context = NodeContext(self.clock, self.store, lambda event: None, self.tasks, renews_leases=True)
            config = KubeletConfig("node-1", MINOR, static_pod_path=self.manifests)
            self.kubelet = Kubelet(self.folder, config, self.context)
            self.stack.push_async_callback(self.kubelet.close)
            await self.kubelet.start()
            yield

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Let a loop run until the end; it must not end before."""
        self.loops.append(self.tasks.create_task(work))
        self.stack.callback(self.loops[-1].cancel)

    async def until(self, condition: Callable[[], object]) -> bool:
        """Whether a condition holds within five minutes of the cluster's time."""
        for _ in range(300):
            if condition():
                return True
            await self.clock.advance(1)
            # Sockets and files are in real time.
            await asyncio.sleep(0.001)
        return False

    def create(self, kind: str, name: str, namespace: str = "", **body: Any) -> JSON:
        metadata = {"name": name, **body.pop("metadata", {})}
        return self.objects.create(Key(kind, namespace, name), {**body, "metadata": metadata})

    def create_node(self, name: str, *taints: str) -> None:
        wanted = [{"key": key, "effect": "NoExecute"} for key in taints]
        amounts = {"cpu": "1", "pods": "1"}
        self.create("nodes", name, spec={"taints": wanted}, status={"capacity": amounts, "allocatable": amounts})

    def events_about(self, name: str) -> list[str]:
        """The messages of the Events about an object."""
        events = self.objects.all_of("events")
        return [one["message"] for one in events if one["involvedObject"].get("name") == name]

    def phase(self, name: str) -> str:
        found = self.store.pod_named(name)
        return "" if found is None else found.status.phase.value


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    made = World(folder)
    async with made.running():
        yield made
