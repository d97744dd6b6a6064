"""The fields that a field selector may name, as the texts that it compares.

Source: the ``*SelectableFields`` functions in pkg/registry/core/*/strategy.go; pkg/apis/events/v1/conversion.go,
``AddFieldLabelConversionsForEvent`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ...objects.objects import JSON

__all__ = ["CORE_EVENT_FIELDS", "EVENT_FIELDS", "POD_FIELDS", "SelectableFields", "field_at", "flag_at"]

SelectableFields: TypeAlias = Mapping[str, Callable[[JSON], str]]


def field_at(*path: str) -> Callable[[JSON], str]:
    """Reads what stands at a path; nothing is an empty text."""

    def value(obj: JSON) -> str:
        found: object = obj
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return "" if found is None else str(found)

    return value


def flag_at(*path: str) -> Callable[[JSON], str]:
    """Reads what stands at a path as ``true`` or ``false``."""
    text = field_at(*path)
    return lambda obj: "true" if text(obj) == "True" else "false"


def _pod_ip(pod: JSON) -> str:
    ips = pod.get("status", {}).get("podIPs") or [{}]
    return str(ips[0].get("ip", ""))


def _event_source(event: JSON) -> str:
    return field_at("source", "component")(event) or field_at("reportingComponent")(event)


POD_FIELDS: Final[SelectableFields] = {
    "spec.nodeName": field_at("spec", "nodeName"),
    "spec.restartPolicy": field_at("spec", "restartPolicy"),
    "spec.schedulerName": field_at("spec", "schedulerName"),
    "spec.serviceAccountName": field_at("spec", "serviceAccountName"),
    "spec.hostNetwork": flag_at("spec", "hostNetwork"),
    "status.phase": field_at("status", "phase"),
    "status.podIP": _pod_ip,
    "status.nominatedNodeName": field_at("status", "nominatedNodeName"),
}

_INVOLVED: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

CORE_EVENT_FIELDS: Final[SelectableFields] = {
    **{f"involvedObject.{name}": field_at("involvedObject", name) for name in _INVOLVED},
    "reason": field_at("reason"),
    "reportingComponent": field_at("reportingComponent"),
    "source": _event_source,
    "type": field_at("type"),
}

EVENT_FIELDS: Final[SelectableFields] = {
    **{f"regarding.{name}": field_at("involvedObject", name) for name in _INVOLVED},
    "reason": field_at("reason"),
    "reportingController": field_at("reportingComponent"),
    "type": field_at("type"),
}
"""Of events.k8s.io, read from an Event as it is stored."""
