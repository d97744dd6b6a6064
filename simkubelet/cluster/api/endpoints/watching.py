"""Watches: what happens to the objects of a selection, one event after the other.

A watch keeps a version and no queue: it reads from the history of the objects what came after, when its client takes
it. So a client that reads slowly costs nothing, and one that falls behind the history must list again.

Source: staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go, cache_watcher.go, watch_cache.go
(kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Final

from ...objects.objects import JSON, Objects, TooOldError, Verb, Written
from ..errors import StatusError
from ..registry.kinds import Kind
from .selectors import Selection

__all__ = ["BOOKMARK", "ERROR", "WatchOptions", "watch"]

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


async def watch(
    objects: Objects, kind: Kind, selection: Selection, options: WatchOptions, lasts_s: float
) -> AsyncGenerator[tuple[str, JSON], None]:
    """The types and objects of the events of a watch, without end unless it is an error.

    The caller ends it after `lasts_s` seconds of the event loop; a bookmark comes shortly before.
    """
    since = options.since
    begins_with_state = options.send_initial_events
    if begins_with_state is None:
        begins_with_state = since == 0
    version = objects.version if begins_with_state or since == 0 else since
    if begins_with_state:
        for obj in objects.all_of(kind.key_kind):
            if selection.matches(obj):
                yield Verb.ADDED, obj
        if options.send_initial_events and options.bookmarks:
            yield BOOKMARK, _bookmark(kind, version, {_INITIAL_EVENTS_END: "true"})
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + lasts_s
    bookmark_at = _next_bookmark(loop.time(), ends_at)
    seen = -1
    while True:
        count = objects.change.count
        try:
            written = objects.since(version, kind.key_kind) if count != seen else []
        except TooOldError:
            oldest = objects.oldest(kind.key_kind)
            yield ERROR, StatusError.expired(f"too old resource version: {version} ({oldest})").status()
            return
        seen, version = count, max(version, objects.version)
        for event in _seen_through(selection, written):
            yield event
        if objects.change.count != seen:
            continue
        try:
            async with asyncio.timeout_at(bookmark_at):
                await objects.change.wait(seen)
        except TimeoutError:
            bookmark_at = _next_bookmark(loop.time(), ends_at)
            if options.bookmarks:
                yield BOOKMARK, _bookmark(kind, version)


def _next_bookmark(now: float, ends_at: float) -> float | None:
    """When to send a bookmark: each minute, and shortly before the end; None where no other fits in.

    Source: staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go, ``nextBookmarkTime`` (kubernetes v1.34.4).
    """
    at = min(now + _BOOKMARK_PERIOD_S, ends_at - _BOOKMARK_BEFORE_END_S)
    return at if at >= now else None


def _seen_through(selection: Selection, written: list[Written]) -> Iterator[tuple[str, JSON]]:
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
