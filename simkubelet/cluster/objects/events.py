"""Kubernetes Events: how they are recorded as API objects, and those about each pod.

Kubelets record with client-go's older library: repeats raise ``count`` and move ``lastTimestamp``. The scheduler
records with the newer one: repeats make a ``series``. Similar Events are combined, a flood of them is limited, and
Events expire, after an hour unless the cluster has another time.

Source: client-go, tools/record/event.go, ``makeEvent``; tools/record/events_cache.go, ``EventCorrelate``;
tools/events/event_recorder.go, ``makeEvent``; tools/events/event_broadcaster.go, ``recordToSink`` (v0.34.4), but that
a series is written at each repeat and not now and then.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from ..._internal.change import Change
from ...model.events import SIMULATOR, EventRecorded, Observer
from ...model.pod import Pod, PodUID
from .namespaces import termination
from .objects import JSON, Key, Objects, Verb, Written
from .stored_sizes import TOO_LARGE, is_too_large

__all__ = ["EVENT_TTL_S", "EventRecorder", "KubeEvent", "PodEvents"]

_log = logging.getLogger(__name__)
_REMEMBERED: Final = 4096
_ALIKE_AT_MOST: Final = 10
_ALIKE_WITHIN_S: Final = 600.0
_BURST: Final = 25
_REFILL_S: Final = 300.0
EVENT_TTL_S: Final = 3600.0
_SERIES_WITHIN_S: Final = 360.0
_REFERENCE: Final = ("namespace", "name", "uid", "resourceVersion")
_COMBINED: Final = "(combined from similar events): "
_Known = TypeVar("_Known")
_Identity: TypeAlias = tuple[object, ...]
"""The component and its host, the object, and what else distinguishes Events: a message by its hash, as it is long."""


@dataclass(frozen=True, slots=True)
class KubeEvent:
    """A Kubernetes Event about a pod; repeats of the same text raise `count`."""

    pod_uid: PodUID
    type: str
    reason: str
    message: str
    component: str
    count: int = 1


class EventRecorder:
    """Records the Events of all components of one cluster.

    Args:
        objects: what is stored.
        ttl_s: how long an Event stays after it was written last; 0 for without end.
    """

    def __init__(self, objects: Objects, ttl_s: float = EVENT_TTL_S) -> None:
        self._objects = objects
        self._ttl_s = ttl_s
        self._last_nanos = 0
        self._recorded: dict[_Identity, Key] = {}
        self._alike: dict[_Identity, _Alike] = {}
        self._buckets: dict[_Identity, _Bucket] = {}
        self._written_at: dict[Key, float] = {}
        self._heard: set[tuple[str, str]] = set()
        objects.subscribe("events", self._note)

    def record(
        self,
        about: Mapping[str, Any],
        type_: str,
        reason: str,
        message: str,
        component: str,
        *,
        host: str = "",
        action: str = "",
    ) -> None:
        """Record an Event.

        Args:
            about: the reference to an object that the Event carries.
            type_: ``Normal`` or ``Warning``.
            reason: in one word.
            message: in a sentence.
            component: who says it.
            host: the node on which that one runs; empty for one of the control plane.
            action: what was done or tried, which the newer library asks for; with it the Event is one of that library.
        """
        self._heard.add((component, host))
        identity = (component, host, about.get("kind"), about.get("namespace"), about.get("name"), about.get("uid"))
        self.expire()
        if action:
            # The newer library compares whole references and no messages.
            key: _Identity = (*identity, about.get("resourceVersion"), type_, reason, action)
            self._write(key, about, type_, reason, message, component=component, host=host, action=action)
            return
        alike = (*identity, type_, reason)
        key = (*alike, about.get("fieldPath"), hash(message))
        if self._is_one_of_many(alike, message):
            key, message = alike, _COMBINED + message
        if self._is_let_through((*identity, type_)):
            self._write(key, about, type_, reason, message, component=component, host=host, action="")

    def record_failure(self, about: JSON, error: str) -> None:
        """Record that a part of the cluster cannot handle an object; it has its kind and apiVersion."""
        metadata = {part: about["metadata"][part] for part in _REFERENCE if part in about["metadata"]}
        reference = {"apiVersion": about["apiVersion"], "kind": about["kind"], **metadata}
        self.record(reference, "Warning", "InternalError", error, SIMULATOR)

    def forget(self, component: str, host: str) -> None:
        """Forget the Events of a component that has restarted: its next Event repeats none."""
        if (component, host) not in self._heard:
            return
        self._heard.discard((component, host))
        for known in (self._recorded, self._alike, self._buckets):
            for key in [key for key in known if key[:2] == (component, host)]:
                del known[key]

    def _write(
        self,
        key: _Identity,
        about: Mapping[str, Any],
        type_: str,
        reason: str,
        message: str,
        *,
        component: str,
        host: str,
        action: str,
    ) -> None:
        wall_time = self._objects.wall_time
        place = self._recorded.get(key)
        stored = None if place is None else self._objects.get(place)
        if place is not None and stored is not None and (not action or self._is_in_series(stored)):
            repeated = _repeated_json(stored, wall_time.now(), wall_time.now_micro())
            body = repeated if action else {**repeated, "message": message}
            write = self._objects.replace
        else:
            namespace, name = about.get("namespace") or "default", f"{about['name']}.{self._nanos():x}"
            if termination(self._objects, namespace) is not None:
                # The API server refuses what is new there, and neither library tries again.
                return
            texts, place = (about, type_, reason, message), Key("events", namespace, name)
            body = (
                _series_json(*texts, component=component, action=action, now=wall_time.now_micro())
                if action
                else _event_json(*texts, component=component, host=host, now=wall_time.now())
            )
            write = self._objects.create
        if is_too_large(body):
            _log.error("Server rejected event (will not retry!): %s", TOO_LARGE)
            return
        _remember(self._recorded, key, place)
        write(place, body)

    def _note(self, written: Written) -> None:
        self._written_at.pop(written.key, None)
        if written.verb is not Verb.DELETED:
            self._written_at[written.key] = self._objects.wall_time.elapsed()

    def expire(self) -> float:
        """Remove the Events whose time is over; each record does it, too.

        Returns:
            In how many seconds the next Event can be over; infinite where none ever is.

        Source: pkg/controlplane/apiserver/options/options.go, ``EventTTL``; apiserver/pkg/storage/etcd3/store.go,
        ``ttlOpts``: no lease without a ttl (kubernetes v1.34.4).
        """
        if not self._ttl_s:
            return math.inf
        now = self._objects.wall_time.elapsed()
        for key in list(itertools.takewhile(lambda key: self._written_at[key] < now - self._ttl_s, self._written_at)):
            self._objects.remove(key)
        return next(iter(self._written_at.values()), now) + self._ttl_s - now

    def _is_in_series(self, stored: Mapping[str, Any]) -> bool:
        last = (stored.get("series") or {}).get("lastObservedTime") or stored["eventTime"]
        wall_time = self._objects.wall_time
        return wall_time.elapsed() - wall_time.seconds(last) <= _SERIES_WITHIN_S

    def _is_one_of_many(self, key: _Identity, message: str) -> bool:
        now = self._objects.wall_time.elapsed()
        alike = self._alike.get(key)
        if alike is None or now - alike.last > _ALIKE_WITHIN_S:
            alike = _Alike(now)
            _remember(self._alike, key, alike)
        alike.last = now
        alike.messages.add(hash(message))
        if len(alike.messages) < _ALIKE_AT_MOST:
            return False
        alike.messages.pop()
        return True

    def _is_let_through(self, key: _Identity) -> bool:
        now = self._objects.wall_time.elapsed()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = _Bucket(now)
            _remember(self._buckets, key, bucket)
        bucket.tokens = min(_BURST, bucket.tokens + (now - bucket.at) / _REFILL_S)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _nanos(self) -> int:
        """The date in nanoseconds, for a name; two Events of the same moment have different ones."""
        wall_time = self._objects.wall_time
        self._last_nanos = max(self._last_nanos + 1, wall_time.unix_nanos())
        return self._last_nanos


class PodEvents:
    """The Events about the pods of one cluster.

    Args:
        objects: what is stored.
        observe: called with each Event about a pod.
        change: notified of every Event.
        ttl_s: see `EventRecorder`.
    """

    def __init__(self, objects: Objects, observe: Observer, change: Change, ttl_s: float = EVENT_TTL_S) -> None:
        self.recorder = EventRecorder(objects, ttl_s)
        self._observe = observe
        self._change = change
        self._events: dict[PodUID, dict[Key, KubeEvent]] = {}
        objects.subscribe("events", self._follow)

    def about(self, uid: PodUID) -> tuple[KubeEvent, ...]:
        """Events that name this uid, oldest first."""
        return tuple(self._events.get(uid, {}).values())

    def record(
        self,
        pod: Pod,
        type_: str,
        reason: str,
        message: str,
        component: str,
        *,
        container: str | None = None,
        host: str | None = None,
        action: str = "",
    ) -> None:
        """Record an Event about a pod.

        Args:
            pod: what it is about; a static pod by its own id.
            type_: ``Normal`` or ``Warning``.
            reason: in one word.
            message: in a sentence.
            component: who says it.
            container: the container that it is about, of those of the pod.
            host: the node of who says it; that of the pod where it is None.
            action: see `EventRecorder.record`; who gives one is on no node.
        """
        about: JSON = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": str(pod.uid),
        }
        if "resourceVersion" in pod.manifest["metadata"]:
            about["resourceVersion"] = pod.manifest["metadata"]["resourceVersion"]
        if container is not None:
            about["fieldPath"] = f"spec.{pod.part_of(container)}{{{container}}}"
        if host is None:
            host = "" if action else pod.node_name or ""
        self.recorder.record(about, type_, reason, message, component, host=host, action=action)

    def _follow(self, written: Written) -> None:
        event = _read_event(written.object)
        about = self._events.setdefault(event.pod_uid, {})
        if written.verb is Verb.DELETED:
            about.pop(written.key, None)
            if not about:
                del self._events[event.pod_uid]
            return
        before = about.get(written.key)
        about[written.key] = event
        involved = written.object["involvedObject"]
        if involved.get("kind") == "Pod" and (before is None or before.count < event.count):
            namespace, name = involved.get("namespace") or "default", str(involved.get("name"))
            key = name if namespace == "default" else f"{namespace}/{name}"
            self._observe(EventRecorded(key, event.type, event.reason, event.message, event.component))
        self._change.notify()


@dataclass(slots=True)
class _Alike:
    """Events of one reason about one object: the hashes of their long messages, and when the last one came."""

    last: float
    messages: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Bucket:
    """How many more Events of one kind about one object are let through, at a time."""

    at: float
    tokens: float = _BURST


def _remember(known: dict[_Identity, _Known], key: _Identity, value: _Known) -> None:
    """Note something and forget what was noted first where that is too much."""
    known[key] = value
    if len(known) > _REMEMBERED:
        del known[next(iter(known))]


def _event(about: Mapping[str, Any], type_: str, reason: str, message: str, fields: JSON) -> JSON:
    """An Event with the fields that all have, and others."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {},
        "involvedObject": about,
        "type": type_,
        "reason": reason,
        "message": message,
        **fields,
    }


def _event_json(
    about: Mapping[str, Any], type_: str, reason: str, message: str, *, component: str, host: str, now: str
) -> JSON:
    """An Event of a kubelet."""
    fields: JSON = {
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "eventTime": None,
        "source": {"component": component, "host": host} if host else {"component": component},
        "reportingComponent": component,
        "reportingInstance": host,
    }
    return _event(about, type_, reason, message, fields)


def _series_json(
    about: Mapping[str, Any], type_: str, reason: str, message: str, *, component: str, action: str, now: str
) -> JSON:
    """An Event of the scheduler; `now` has microseconds."""
    fields: JSON = {
        "action": action,
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": now,
        "source": {},
        "reportingComponent": component,
        "reportingInstance": f"{component}-control-plane",
    }
    return _event(about, type_, reason, message, fields)


def _repeated_json(stored: Mapping[str, Any], now: str, now_micro: str) -> JSON:
    """Return an Event that has happened again."""
    if stored["eventTime"] is None:
        return {**stored, "count": stored["count"] + 1, "lastTimestamp": now}
    series = stored.get("series") or {"count": 1}
    return {**stored, "series": {"count": series["count"] + 1, "lastObservedTime": now_micro}}


def _read_event(stored: Mapping[str, Any]) -> KubeEvent:
    """The Event that an object describes."""
    count = stored.get("count") or (stored.get("series") or {}).get("count") or 1
    return KubeEvent(
        PodUID(str(stored["involvedObject"].get("uid") or "")),
        str(stored.get("type") or ""),
        str(stored.get("reason") or ""),
        str(stored.get("message") or ""),
        str(stored.get("reportingComponent") or (stored.get("source") or {}).get("component") or ""),
        int(count),
    )
