"""The config maps and secrets that pods of this process refer to: each is read when the first pod comes, and followed.

A pod is not shown to its kubelet before, since a kubelet here reads them without waiting.

Source: kubelet/util/manager/watch_based_manager.go, ``RegisterPod``, ``UnregisterPod``, ``AddReference`` (kubernetes
v1.34.4).
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from .._internal.doors import Door
from ..model.clock import Clock
from ..model.pod import PodUID
from .client import JSON, ApiClient
from .reflector import Reflector

__all__ = ["References", "referred_objects"]

Reference: TypeAlias = tuple[str, str, str]
"""Plural, namespace, name."""

_REVEAL: Final = Door("pod whose references have been read")
_VOLUMES: Final = {"configMap": ("configmaps", "name"), "secret": ("secrets", "secretName")}
_PROJECTED: Final = {"configMap": "configmaps", "secret": "secrets"}
_MOST_WATCHES: Final = 1000
"""Each takes a connection; Go's client shares one. What is not watched is read anew, as by a kubelet with the strategy
Cache. Source: kubelet/util/manager/cache_based_manager.go (kubernetes v1.34.4)."""
_PERIOD_S: Final = 60.0
_LISTS: Final = 16
"""At a time."""
_LONGEST_S: Final = 5.0
"""How long a pod waits for an object that the server does not give, such as one that this client may not read."""


def referred_objects(pod: Mapping[str, Any]) -> set[Reference]:
    """Return the config maps and secrets that a pod's volumes and variables refer to."""
    namespace = str(pod["metadata"].get("namespace") or "default")
    return {(kind, namespace, name) for kind, name in _names(pod.get("spec") or {}) if name}


def _names(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for volume in spec.get("volumes") or ():
        for field_, (kind, name) in _VOLUMES.items():
            yield kind, (volume.get(field_) or {}).get(name) or ""
        for source in (volume.get("projected") or {}).get("sources") or ():
            for field_, kind in _PROJECTED.items():
                yield kind, (source.get(field_) or {}).get("name") or ""
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        for field_, kind in _PROJECTED.items():
            for source in container.get("envFrom") or ():
                yield kind, (source.get(f"{field_}Ref") or {}).get("name") or ""
            for variable in container.get("env") or ():
                yield kind, ((variable.get("valueFrom") or {}).get(f"{field_}KeyRef") or {}).get("name") or ""


@dataclass(slots=True)
class _Held:
    """One object, a `Follower` of the list of it alone."""

    found: JSON | None = None
    holders: set[PodUID] = field(default_factory=set)
    task: asyncio.Task[None] | None = None
    is_read: asyncio.Event = field(default_factory=asyncio.Event)

    def replaced(self, items: Sequence[JSON]) -> None:
        self.found = items[0] if items else None

    def changed(self, item: JSON) -> None:
        self.found = item

    def deleted(self, item: JSON) -> None:
        self.found = None


class References:
    """The objects that pods refer to.

    Args:
        client: of the server.
        tasks: owns what follows them.
        clock: the time of pauses.
        complain: called with what the server refuses.
    """

    def __init__(
        self, client: ApiClient, tasks: asyncio.TaskGroup, clock: Clock, complain: Callable[[str], None]
    ) -> None:
        self._client = client
        self._tasks = tasks
        self._clock = clock
        self._complain = complain
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most_watches = _MOST_WATCHES if files == resource.RLIM_INFINITY else min(_MOST_WATCHES, files // 4)
        self._watches = 0
        self._turns = asyncio.Semaphore(_LISTS)
        self._held: dict[Reference, _Held] = {}
        self._by_pod: dict[PodUID, set[Reference]] = {}
        self._waiting: dict[PodUID, asyncio.Task[None]] = {}

    def read(self, kind: str, namespace: str, name: str) -> JSON | None:
        """Return an object that a pod refers to; None where there is none."""
        held = self._held.get((kind, namespace, name))
        return None if held is None else held.found

    def hold(self, uid: PodUID, pod: Mapping[str, Any], on_read: Callable[[], None]) -> None:
        """Follow what a pod refers to until `release`.

        Args:
            uid: the pod's.
            pod: its object.
            on_read: called once all of it has been read; at once where that is so already.
        """
        wanted = sorted(referred_objects(pod))
        self._by_pod[uid] = set(wanted)
        missing = [held for one in wanted if not (held := self._of(one, uid)).is_read.is_set()]
        if missing:
            self._waiting[uid] = self._tasks.create_task(self._call_when_read(uid, missing, on_read))
        else:
            on_read()

    def release(self, uid: PodUID) -> None:
        """Forget what only this pod referred to."""
        if (waiting := self._waiting.pop(uid, None)) is not None:
            waiting.cancel()
        for reference in self._by_pod.pop(uid, ()):
            held = self._held[reference]
            held.holders.discard(uid)
            if not held.holders:
                del self._held[reference]
                if held.task is not None:
                    held.task.cancel()

    async def until_read(self) -> None:
        """Return when all that pods refer to now has been read."""
        if self._waiting:
            await asyncio.wait(list(self._waiting.values()))

    async def close(self) -> None:
        """Follow nothing more."""
        tasks = [*self._waiting.values(), *(held.task for held in self._held.values() if held.task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _of(self, reference: Reference, uid: PodUID) -> _Held:
        held = self._held.get(reference)
        if held is None:
            held = self._held[reference] = _Held()
            kind, namespace, name = reference
            reflector = Reflector(
                self._client,
                f"/api/v1/namespaces/{namespace}/{kind}",
                {"fieldSelector": f"metadata.name={name}"},
                held,
                self._clock,
                self._complain,
                self._turns,
            )
            held.is_read = reflector.is_synced
            held.task = self._tasks.create_task(self._follow(reflector), name=f"{kind} {namespace}/{name}")
        held.holders.add(uid)
        return held

    async def _follow(self, reflector: Reflector) -> None:
        if self._watches >= self._most_watches:
            await reflector.poll(_PERIOD_S)
        else:
            self._watches += 1
            try:
                await reflector.run()
            finally:
                self._watches -= 1

    async def _call_when_read(self, uid: PodUID, missing: Sequence[_Held], on_read: Callable[[], None]) -> None:
        try:
            async with asyncio.timeout(_LONGEST_S):
                for held in missing:
                    await held.is_read.wait()
        except TimeoutError:
            # The kubelet reports the object as missing, and tries again.
            pass
        self._waiting.pop(uid, None)
        with _REVEAL(uid):
            on_read()
