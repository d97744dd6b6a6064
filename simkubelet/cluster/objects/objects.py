"""The objects of one cluster as an API server keeps them: JSON, each write with a version, and what was written since.

An object that has been stored is never changed in place: a writer stores another object. What a kind allows, fills in
and refuses is decided above (`api`); what the scheduler and the kubelets see of it is `Store`.
"""

from __future__ import annotations

import uuid
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import starmap, takewhile, zip_longest
from typing import Any, Final, TypeAlias

from ..._internal.change import Change
from ..._internal.doors import Door
from ...model.clock import Clock

__all__ = [
    "JSON",
    "ExistsError",
    "Key",
    "Objects",
    "TooOldError",
    "Verb",
    "WallTime",
    "Written",
    "copied",
    "merge_patch",
    "with_deletion",
]

JSON: TypeAlias = dict[str, Any]

_REMEMBERED_S: Final = 75.0
_LEAST_REMEMBERED: Final = 1000
_MOST_REMEMBERED: Final = 100 * 1024
_LEAST_REMEMBERED_BYTES: Final = 4 << 20
_MOST_REMEMBERED_BYTES: Final = 128 << 20
"""A real server counts writes alone. With objects of megabytes its memory is that of a machine for servers."""
_FORGET_PERIOD_S: Final = 15.0
_VALUE_BYTES: Final = 64
"""Of a short text, or of a list or a dictionary without what is in it."""
_MOST_FIELDS: Final = 64
"""More than any type of the API has; the names of these are shared, those of a larger map are not."""
_WRITE: Final = Door("notice of a write")
_LAST: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


class ExistsError(Exception):
    """There is an object of this kind and name already."""


class TooOldError(Exception):
    """What was written since that version is not known any more."""


class Verb(StrEnum):
    """What a write did, in the words of a watch."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The place of an object.

    Attributes:
        kind: the plural, with the group behind it where there is one: ``pods``, ``daemonsets.apps``.
        namespace: empty for kinds without namespaces.
    """

    kind: str
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """The place among those of its kind; lists are in the order of this text, as etcd's keys are."""
        return f"{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"{self.kind} {self.path.removeprefix('/')}"


@dataclass(frozen=True, slots=True)
class Written:
    """One write.

    Attributes:
        version: the cluster's after it, which is the object's resourceVersion too.
        at: the clock's seconds then.
        object: the object after the write; for DELETED its last state, with this version.
        before: the object before the write.
    """

    version: int
    at: float
    verb: Verb
    key: Key
    object: JSON
    before: JSON | None


Subscriber = Callable[[Written], None]


@dataclass(slots=True)
class _Collection:
    """The objects of one kind.

    Attributes:
        stored: path -> object.
        weights: path -> the object's size, about, in bytes.
        paths: the same paths in order.
        history: the latest writes, the oldest first.
        sizes: of the objects in the history, about, in bytes.
        size: the sum of these.
        latest: the version of the newest write.
        forgotten: the version of the newest write that is no longer in the history.
    """

    stored: dict[str, JSON] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    history: deque[Written] = field(default_factory=deque)
    sizes: deque[int] = field(default_factory=deque)
    size: int = 0
    latest: int = 0
    forgotten: int = 0
    subscribers: list[Subscriber] = field(default_factory=list)

    def remember(self, written: Written) -> None:
        """Add a write to the history.

        What an object shares with its state before is not measured again: of one with thousands of parts, few change.
        """
        path = written.key.path
        size = self.weights.pop(path, 0) + _growth(written.object, written.before)
        if written.verb is not Verb.DELETED:
            self.weights[path] = size
        self.history.append(written)
        self.sizes.append(size)
        self.size += size
        self.latest = written.version

    def forget(self, until: float) -> None:
        """Drop the writes before a time, but for some; the oldest ones also where there are too many.

        Source: apiserver/pkg/storage/cacher/watch_cache.go, ``eventFreshDuration``, ``resizeCacheLocked``,
        ``defaultUpperBoundCapacity`` (v0.34.4); its lower bound is 100.
        """
        history = self.history
        while history and (
            (len(history) > _MOST_REMEMBERED or self.size > _MOST_REMEMBERED_BYTES)
            or (history[0].at < until and (len(history) > _LEAST_REMEMBERED or self.size > _LEAST_REMEMBERED_BYTES))
        ):
            self.forgotten = history.popleft().version
            self.size -= self.sizes.popleft()


class Objects:
    """All objects of a cluster; `change` is notified of each write.

    The writes of the last 75 s are remembered, and the last 1,000 of each kind, as far as these are not too large; a
    client that asks for what came after an older one must list again.
    """

    def __init__(self, wall_time: WallTime) -> None:
        self.change = Change()
        self.wall_time = wall_time
        self.version = 1
        self.record_failure: Callable[[Key, JSON, str], None] = lambda key, one, error: None
        """Records an Event about an object that a subscriber could not take."""
        self._kinds: defaultdict[str, _Collection] = defaultdict(_Collection)
        self._forgets_at = 0.0

    def oldest(self, kind: str) -> int:
        """The oldest version since which all writes to a kind are remembered."""
        return self._kinds[kind].forgotten

    def latest(self, kind: str) -> int:
        """The version of the last write to a kind; 0 before the first."""
        return self._kinds[kind].latest

    def get(self, key: Key) -> JSON | None:
        """The object at a place."""
        return self._kinds[key.kind].stored.get(key.path)

    def weight(self, key: Key) -> int:
        """About how many bytes of memory the object at a place takes; 0 where there is none."""
        return self._kinds[key.kind].weights.get(key.path, 0)

    def all_of(self, kind: str, namespace: str | None = None) -> list[JSON]:
        """The objects of a kind in the order of `Key.path`; of all namespaces where none is given."""
        return list(self.by_path(kind, namespace).values())

    def by_path(self, kind: str, namespace: str | None = None, after: str = "") -> JSON:
        """`Key.path` -> object, in the order of the paths, for those behind `after`."""
        found = self._kinds[kind]
        paths = found.paths
        begin, end = 0, len(paths)
        if namespace is not None:
            # In ASCII, "0" follows "/".
            begin, end = bisect_left(paths, f"{namespace}/"), bisect_left(paths, f"{namespace}0")
        return {path: found.stored[path] for path in paths[max(begin, bisect_right(paths, after)) : end]}

    def create(self, key: Key, body: Mapping[str, Any]) -> JSON:
        """Store a new object with a uid, a creationTimestamp and a resourceVersion; uid and date may be given.

        Raises:
            ExistsError: the place is taken.
        """
        if self.get(key) is not None:
            raise ExistsError(key)
        metadata = {
            "uid": str(uuid.uuid4()),
            "creationTimestamp": self.wall_time.now(),
            **(body.get("metadata") or {}),
            "name": key.name,
        }
        if key.namespace:
            metadata["namespace"] = key.namespace
        return self._write(Verb.ADDED, key, {**body, "metadata": metadata}, None)

    def replace(self, key: Key, body: Mapping[str, Any]) -> JSON:
        """Store another state of an object; the same state is no write and keeps its resourceVersion.

        Raises:
            KeyError: there is no such object.
        """
        before = self._kinds[key.kind].stored[key.path]
        if {**body, "metadata": _unversioned(body)} == {**before, "metadata": _unversioned(before)}:
            return before
        return self._write(Verb.MODIFIED, key, body, before)

    def remove(self, key: Key) -> JSON:
        """Drop an object for good; its last state, with the version of the deletion.

        Raises:
            KeyError: there is no such object.
        """
        before = self._kinds[key.kind].stored[key.path]
        return self._write(Verb.DELETED, key, before, before)

    def since(self, version: int, kind: str) -> list[Written]:
        """The writes to a kind after a version, in order.

        Raises:
            TooOldError: not all of them are remembered.
        """
        if version < self.oldest(kind):
            raise TooOldError(version)
        # From the newest back, as a watch asks for few.
        newer = takewhile(lambda written: written.version > version, reversed(self._kinds[kind].history))
        return list(newer)[::-1]

    def subscribe(self, kind: str, subscriber: Subscriber) -> None:
        """Call a function at each write to a kind, before `change` is notified."""
        self._kinds[kind].subscribers.append(subscriber)

    def _write(self, verb: Verb, key: Key, body: Mapping[str, Any], before: JSON | None) -> JSON:
        self.version += 1
        new: JSON = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        kind, path = self._kinds[key.kind], key.path
        if verb is Verb.DELETED:
            del kind.stored[path], kind.paths[bisect_left(kind.paths, path)]
        else:
            kind.stored[path] = new
        if verb is Verb.ADDED:
            insort(kind.paths, path)
        written = Written(self.version, self.wall_time.elapsed(), verb, key, new, before)
        kind.remember(written)
        self._forget(kind, written.at)
        for subscriber in kind.subscribers:
            self.deliver(written, subscriber)
        self.change.notify()
        return new

    def deliver(self, written: Written, subscriber: Subscriber) -> None:
        """Call a subscriber with a write; what fails in it is a failure of the object."""
        key = written.key
        record = None if key.kind == "events" else partial(self.record_failure, key, written.object)
        with _WRITE(key, record):
            subscriber(written)

    def _forget(self, written_to: _Collection, now: float) -> None:
        """Shorten histories: that of a kind that was written to, and now and then those of all."""
        written_to.forget(now - _REMEMBERED_S)
        if now >= self._forgets_at:
            self._forgets_at = now + _FORGET_PERIOD_S
            for kind in self._kinds.values():
                kind.forget(now - _REMEMBERED_S)


def _size(value: Any) -> int:
    """About how many bytes of memory a JSON value takes."""
    if isinstance(value, str):
        return _VALUE_BYTES + len(value)
    if isinstance(value, dict):
        return _VALUE_BYTES + _names_size(value) + sum(map(_size, value.values()))
    return _VALUE_BYTES + sum(map(_size, value)) if isinstance(value, list) else 0


def _names_size(value: JSON) -> int:
    return sum(_VALUE_BYTES + len(name) for name in value) if len(value) > _MOST_FIELDS else 0


def _growth(new: Any, old: Any) -> int:
    """By how much the size of a value is more than that of another one; what both share is not looked into."""
    if new is old:
        return 0
    if isinstance(new, dict) and isinstance(old, dict):
        gone = sum(_size(inner) for name, inner in old.items() if name not in new)
        grown = sum(_growth(inner, old.get(name)) for name, inner in new.items())
        return grown - gone + _names_size(new) - _names_size(old)
    if isinstance(new, list) and isinstance(old, list):
        return sum(starmap(_growth, zip_longest(new, old)))
    return _size(new) - _size(old)


def copied(value: Any) -> Any:
    """A copy of a JSON value that shares no object or array with it; faster than `copy.deepcopy`."""
    if isinstance(value, dict):
        return {name: copied(inner) for name, inner in value.items()}
    return [copied(inner) for inner in value] if isinstance(value, list) else value


def merge_patch(obj: Any, patch: JSON) -> JSON:
    """What a JSON merge patch makes of a value (RFC 7396)."""
    merged = dict(obj) if isinstance(obj, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value) if isinstance(value, dict) else value
    return merged


def with_deletion(stored: Mapping[str, Any], grace_s: int, wall_time: WallTime) -> JSON:
    """Return an object that is to be gone within so many seconds; asking again shortens what is left.

    Source: apiserver/pkg/registry/rest/delete.go, ``BeforeDelete`` (v0.34.4).
    """
    metadata, now = dict(stored["metadata"]), wall_time.elapsed()
    if metadata.get("deletionTimestamp") is None:
        end = now + grace_s
        if metadata.get("generation"):
            metadata["generation"] += 1
    else:
        end = wall_time.seconds(metadata["deletionTimestamp"]) - metadata["deletionGracePeriodSeconds"] + grace_s
        if end < now:
            end, grace_s = now, min(grace_s, 1)
    metadata.update(deletionTimestamp=wall_time.date(end), deletionGracePeriodSeconds=grace_s)
    return {**stored, "metadata": metadata}


def _unversioned(body: Mapping[str, Any]) -> JSON:
    return {name: value for name, value in body["metadata"].items() if name != "resourceVersion"}


class WallTime:
    """The date of a cluster: seconds of its clock as the timestamps of API objects, RFC 3339 in UTC.

    Args:
        clock: the cluster's time.
        begin: the date at the clock's zero; today's where it is None.
    """

    def __init__(self, clock: Clock, begin: datetime | None = None) -> None:
        self._clock = clock
        self._begin = begin or datetime.now(UTC) - timedelta(seconds=clock.now())
        self._left_s = (_LAST - self._begin).total_seconds()

    def elapsed(self) -> float:
        """The clock's seconds now."""
        return self._clock.now()

    def now(self) -> str:
        """The date now, to the second, as ``metav1.Time`` is written."""
        return self.date(self._clock.now())

    def now_micro(self) -> str:
        """The date now, to the microsecond, as ``metav1.MicroTime`` is written."""
        return (self._begin + timedelta(seconds=self._clock.now())).isoformat(timespec="microseconds")[:-6] + "Z"

    def unix_nanos(self) -> int:
        """The date now, in nanoseconds since 1970."""
        return int(self._begin.timestamp() * 1e6) * 1000 + int(self._clock.now() * 1e9)

    def date(self, seconds: float) -> str:
        """The date at so many seconds of the clock; the last one that there is where that would be later."""
        return (self._begin + timedelta(seconds=min(seconds, self._left_s))).isoformat(timespec="seconds")[:-6] + "Z"

    def seconds(self, date: str) -> float:
        """The clock's seconds at a date.

        Raises:
            ValueError: it is not a date.
        """
        return (datetime.fromisoformat(date) - self._begin).total_seconds()
