"""Kubernetes Events as the API shows them: those of kubelets, and those of the scheduler.

Kubelets record with client-go's older library: repeats raise ``count`` and move ``lastTimestamp``. The scheduler
records with the newer one: repeats make a ``series``.

Source: client-go, tools/record/event.go, ``makeEvent``; tools/events/event_recorder.go, ``makeEvent`` (v0.34.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...model.pod import PodUID
from .objects import JSON

__all__ = ["KubeEvent", "event_json", "read_event", "repeated_json", "series_json"]


@dataclass(frozen=True, slots=True)
class KubeEvent:
    """A Kubernetes Event about a pod; repeats of the same text raise `count`."""

    pod_uid: PodUID
    type: str
    reason: str
    message: str
    component: str
    count: int = 1


def event_json(
    about: Mapping[str, Any], type_: str, reason: str, message: str, *, component: str, host: str, now: str
) -> JSON:
    """An Event of a kubelet."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {},
        "involvedObject": about,
        "type": type_,
        "reason": reason,
        "message": message,
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "eventTime": None,
        "source": {"component": component, "host": host} if host else {"component": component},
        "reportingComponent": component,
        "reportingInstance": host,
    }


def series_json(
    about: Mapping[str, Any], type_: str, reason: str, message: str, *, component: str, action: str, now: str
) -> JSON:
    """An Event of the scheduler; `now` has microseconds."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {},
        "involvedObject": about,
        "type": type_,
        "reason": reason,
        "message": message,
        "action": action,
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": now,
        "source": {},
        "reportingComponent": component,
        "reportingInstance": f"{component}-control-plane",
    }


def repeated_json(stored: Mapping[str, Any], now: str, now_micro: str) -> JSON:
    """An Event that has happened once more."""
    if stored["eventTime"] is None:
        return {**stored, "count": stored["count"] + 1, "lastTimestamp": now}
    series = stored.get("series") or {"count": 1}
    return {**stored, "series": {"count": series["count"] + 1, "lastObservedTime": now_micro}}


def read_event(stored: Mapping[str, Any]) -> KubeEvent:
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
