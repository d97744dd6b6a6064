"""Watches: what happens to the objects of a selection.

A watch keeps a version and no queue: it reads from the history of the objects what came after, when its client takes
it. So a client that reads slowly costs nothing, and one that falls behind the history must list again. While a watch
waits, a write wakes it only if it concerns its selection.

Source: staging/src/k8s.io/apiserver/pkg/storage/cacher (cacher.go, cache_watcher.go, watch_cache.go; kubernetes
v1.34.4).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from ...objects.objects import JSON, Objects, TooOldError, Verb, Written
from ..errors import StatusError
from ..registry.kinds import Kind
from .selectors import Selection

__all__ = ["BOOKMARK", "ERROR", "WatchOptions", "Watches"]

BOOKMARK: Final = "BOOKMARK"
ERROR: Final = "ERROR"

_BOOKMARK_PERIOD_S: Final = 60.0
_BOOKMARK_BEFORE_END_S: Final = 2.0
_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What a watch request asks for."""

    since: int = 0
    bookmarks: bool = False
    send_initial_events: bool | None = None


class _Follower:
    """A watch that is open: nothing for it is in the history up to `version`, as far as it has been read."""

    def __init__(self, selection: Selection, version: int) -> None:
        self.version = version
        self._selection = selection
        self._called: asyncio.Future[None] | None = None

    def note(self, written: Written) -> None:
        """Wake the watch if it waits and the write concerns it."""
        if self._called is None or not any(_seen_through(self._selection, (written,))):
            return
        if not self._called.done():
            self._called.set_result(None)
        self._called, self.version = None, written.version - 1

    async def wait(self, objects: Objects, deadline: float | None) -> bool:
        """Wait for a write that concerns it; False when none has come by a time of the event loop."""
        called = self._called = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout_at(deadline):
                await called
        except TimeoutError:
            if self._called is not None:
                self.version = objects.version
            return False
        finally:
            self._called = None
        return True


@dataclass(slots=True)
class _Index:
    """The followers of one kind that name a value of one field; `value_of` reads it from an object."""

    value_of: Callable[[JSON], str]
    followers: defaultdict[str, set[_Follower]] = field(default_factory=lambda: defaultdict(set))

    def note(self, written: Written) -> None:
        """Ask the followers of the values before and after a write."""
        states = (written.object,) if written.before is None else (written.object, written.before)
        for value in {self.value_of(state) for state in states}:
            for follower in self.followers.get(value, ()):
                follower.note(written)


class Watches:
    """The watches of one cluster's objects.

    A selection is found by the first value that its field selector asks for, else by its namespace, so a write does
    not look at each watch.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._indices: dict[str, dict[str, _Index]] = {}

    async def watch(
        self, kind: Kind, selection: Selection, options: WatchOptions, lasts_s: float
    ) -> AsyncGenerator[tuple[str, JSON], None]:
        """The types and objects of the events of a watch, without end unless it is an error.

        The caller ends it after `lasts_s` seconds of the event loop; a bookmark comes shortly before.
        """
        begins_with_state = options.send_initial_events
        if begins_with_state is None:
            begins_with_state = options.since == 0
        version = self._objects.version if begins_with_state or options.since == 0 else options.since
        if begins_with_state:
            for obj in self._objects.all_of(kind.key_kind, selection.namespace):
                if selection.matches(obj):
                    yield Verb.ADDED, obj
            if options.send_initial_events and options.bookmarks:
                yield BOOKMARK, _bookmark(kind, version, {_INITIAL_EVENTS_END: "true"})
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + lasts_s
        bookmark_at = _next_bookmark(loop.time(), ends_at)
        with self._followed(kind.key_kind, selection, version) as follower:
            while True:
                try:
                    written = self._objects.since(follower.version, kind.key_kind)
                except TooOldError:
                    yield ERROR, self._expired(kind, follower.version)
                    return
                follower.version = max(follower.version, self._objects.version)
                for event in _seen_through(selection, written):
                    yield event
                if self._objects.latest(kind.key_kind) > follower.version:
                    continue
                if not await follower.wait(self._objects, bookmark_at):
                    bookmark_at = _next_bookmark(loop.time(), ends_at)
                    if options.bookmarks:
                        yield BOOKMARK, _bookmark(kind, follower.version)

    def _expired(self, kind: Kind, version: int) -> JSON:
        oldest = self._objects.oldest(kind.key_kind)
        return StatusError.expired(f"too old resource version: {version} ({oldest})").status()

    @contextmanager
    def _followed(self, kind: str, selection: Selection, version: int) -> Iterator[_Follower]:
        """Have a watch noted until the end."""
        if kind not in self._indices:
            self._indices[kind] = {}
            self._objects.subscribe(kind, self._note)
        place, indices = selection.place, self._indices[kind]
        followers = indices.setdefault(place.field, _Index(place.value_of)).followers
        follower = _Follower(selection, version)
        followers[place.value].add(follower)
        try:
            yield follower
        finally:
            followers[place.value].discard(follower)
            if not followers[place.value]:
                del followers[place.value]
            if not followers:
                indices.pop(place.field, None)

    def _note(self, written: Written) -> None:
        for index in self._indices[written.key.kind].values():
            index.note(written)


def _next_bookmark(now: float, ends_at: float) -> float | None:
    """When to send a bookmark: each minute, and shortly before the end; None where no other fits in.

    Source: staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go, ``nextBookmarkTime`` (kubernetes v1.34.4).
    """
    at = min(now + _BOOKMARK_PERIOD_S, ends_at - _BOOKMARK_BEFORE_END_S)
    return at if at >= now else None


def _seen_through(selection: Selection, written: Iterable[Written]) -> Iterator[tuple[str, JSON]]:
    """Writes as a selection shows them: an object that leaves it is deleted, with its last state within."""
    for one in written:
        was = one.before is not None and selection.matches(one.before)
        is_ = one.verb is not Verb.DELETED and selection.matches(one.object)
        if is_:
            yield Verb.MODIFIED if was else Verb.ADDED, one.object
        elif was and one.before is not None:
            metadata = {**one.before["metadata"], "resourceVersion": str(one.version)}
            yield Verb.DELETED, {**one.before, "metadata": metadata}


def _bookmark(kind: Kind, version: int, annotations: dict[str, str] | None = None) -> JSON:
    metadata: JSON = {"resourceVersion": str(version)}
    if annotations:
        metadata["annotations"] = annotations
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
