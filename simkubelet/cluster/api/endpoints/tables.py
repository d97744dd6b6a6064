"""The tables that ``kubectl get`` shows: columns and cells of each kind.

Columns carry no description. Source: pkg/printers/internalversion/printers.go,
staging/src/k8s.io/apimachinery/pkg/util/duration/duration.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from ...objects.objects import JSON, WallTime
from ..registry.kinds import Kind
from .pod_cells import pod_cells, row_conditions

__all__ = ["human_duration", "table_of"]

Age: TypeAlias = Callable[[str | None], str]
Cells: TypeAlias = Callable[[JSON, Age], list[Any]]

_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"
_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE: Final = "kubernetes.io/role"
_YEAR_H: Final = 24 * 365
_NO_TIME: Final = "0001-01-01T00:00:00Z"


def table_of(kind: Kind, objects: Iterable[JSON], wall_time: WallTime) -> tuple[list[JSON], list[tuple[JSON, JSON]]]:
    """The column definitions of a kind, and each object's row (without the object) beside the object."""
    now = wall_time.seconds(wall_time.now())

    def age(date: str | None) -> str:
        return human_duration(now - wall_time.seconds(date)) if date else _UNKNOWN

    columns, cells = _TABLES.get(kind.key_kind, (_DEFAULT_COLUMNS, _default_cells))
    rows = []
    for obj in objects:
        row: JSON = {"cells": cells(obj, age)}
        if kind.key_kind == "pods" and (conditions := row_conditions(obj)):
            row["conditions"] = conditions
        rows.append((row, obj))
    return columns, rows


def human_duration(seconds: float) -> str:
    """How long something took, as kubectl says it: ``5m30s``, ``3h``, ``2d4h``."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 24 * 8:
        return _two(hours // 24, "d", hours % 24, "h")
    if hours < 2 * _YEAR_H:
        return f"{hours // 24}d"
    if hours < 8 * _YEAR_H:
        return _two(hours // _YEAR_H, "y", hours // 24 % 365, "d")
    return f"{hours // _YEAR_H}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


_SIGNS: Final = {"#": "integer", "?": "boolean"}


def _columns(*texts: str) -> list[JSON]:
    """Columns by name; ``+`` before it is one of the wide ones, ``#`` a number, ``?`` yes or no."""
    found = []
    for text in texts:
        name = text.lstrip("+#?")
        form = "name" if name == "Name" else ""
        type_ = next((type_ for sign, type_ in _SIGNS.items() if sign in text), "string")
        priority = 1 if "+" in text else 0
        found.append({"name": name, "type": type_, "format": form, "description": "", "priority": priority})
    return found


def _default_cells(obj: JSON, age: Age) -> list[Any]:
    metadata = obj["metadata"]
    return [metadata.get("name", ""), metadata.get("creationTimestamp", _NO_TIME)]


def _cluster_role_binding(obj: JSON, age: Age) -> list[Any]:
    role, subjects = obj.get("roleRef") or {}, obj.get("subjects") or ()
    named = {
        kind: [
            f"{one.get('namespace', '')}/{one['name']}" if one.get("namespace") else one["name"]
            for one in subjects
            if one["kind"] == kind
        ]
        for kind in ("User", "Group", "ServiceAccount")
    }
    return [
        obj["metadata"]["name"],
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age(obj["metadata"].get("creationTimestamp")),
        *(", ".join(names) for names in named.values()),
    ]


def _config_map(obj: JSON, age: Age) -> list[Any]:
    count = len(obj.get("data") or {}) + len(obj.get("binaryData") or {})
    return [obj["metadata"]["name"], count, age(obj["metadata"].get("creationTimestamp"))]


def _controller_revision(obj: JSON, age: Age) -> list[Any]:
    metadata = obj["metadata"]
    owner = next((owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")), None)
    controller = _NONE
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        controller = f"{owner['kind'].lower()}{f'.{group}' if group else ''}/{owner['name']}"
    return [metadata["name"], controller, obj.get("revision", 0), age(metadata.get("creationTimestamp"))]


def _daemon_set(obj: JSON, age: Age) -> list[Any]:
    status, spec = obj.get("status", {}), obj.get("spec", {})
    template = spec.get("template", {}).get("spec", {})
    containers = template.get("containers") or ()
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady")
    return [
        obj["metadata"]["name"],
        *(status.get(name, 0) for name in (*counts, "updatedNumberScheduled", "numberAvailable")),
        _joined(template.get("nodeSelector") or {}) or _NONE,
        age(obj["metadata"].get("creationTimestamp")),
        ",".join(container["name"] for container in containers),
        ",".join(container.get("image", "") for container in containers),
        _label_selector(spec.get("selector") or {}) or _NONE,
    ]


def _event(obj: JSON, age: Age) -> list[Any]:
    involved, source = obj.get("involvedObject") or {}, obj.get("source") or {}
    first = age(obj.get("firstTimestamp") or obj.get("eventTime"))
    last = age(obj["lastTimestamp"]) if obj.get("lastTimestamp") else first
    count = obj.get("count") or 1
    if series := obj.get("series"):
        last, count = age(series.get("lastObservedTime")), series.get("count", 0)
    target = involved.get("kind", "").lower()
    component = source.get("component") or obj.get("reportingComponent") or ""
    instance = source.get("host") or obj.get("reportingInstance") or ""
    return [
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{target}/{involved['name']}" if involved.get("name") else target,
        involved.get("fieldPath", ""),
        f"{component}, {instance}" if instance else component,
        (obj.get("message") or "").strip(),
        first,
        count,
        obj["metadata"]["name"],
    ]


def _lease(obj: JSON, age: Age) -> list[Any]:
    holder = (obj.get("spec") or {}).get("holderIdentity") or ""
    return [obj["metadata"]["name"], holder, age(obj["metadata"].get("creationTimestamp"))]


def _namespace(obj: JSON, age: Age) -> list[Any]:
    phase = obj.get("status", {}).get("phase", "")
    return [obj["metadata"]["name"], phase, age(obj["metadata"].get("creationTimestamp"))]


def _node(obj: JSON, age: Age) -> list[Any]:
    metadata, status = obj["metadata"], obj.get("status", {})
    ready = next((one for one in status.get("conditions") or () if one["type"] == "Ready"), None)
    words = ["Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"]
    if obj.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    labels: dict[str, str] = metadata.get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)} | {labels.get(_ROLE, "")}
    info = status.get("nodeInfo") or {}
    addresses = {one["type"]: one["address"] for one in reversed(status.get("addresses") or ())}
    return [
        metadata["name"],
        ",".join(words),
        ",".join(sorted(filter(None, roles))) or _NONE,
        age(metadata.get("creationTimestamp")),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", _NONE),
        addresses.get("ExternalIP", _NONE),
        *(info.get(name) or _UNKNOWN for name in ("osImage", "kernelVersion", "containerRuntimeVersion")),
    ]


def _name_and_age(obj: JSON, age: Age) -> list[Any]:
    return [obj["metadata"]["name"], age(obj["metadata"].get("creationTimestamp"))]


def _priority_class(obj: JSON, age: Age) -> list[Any]:
    metadata, is_default = obj["metadata"], obj.get("globalDefault", False)
    created = age(metadata.get("creationTimestamp"))
    return [metadata["name"], obj.get("value", 0), is_default, created, obj.get("preemptionPolicy", "")]


def _resource_claim(obj: JSON, age: Age) -> list[Any]:
    metadata, status = obj["metadata"], obj.get("status") or {}
    states = ["deleted"] if metadata.get("deletionTimestamp") else []
    if status.get("allocation") is not None:
        states += ["allocated", *(["reserved"] if status.get("reservedFor") else ())]
    return [metadata["name"], ",".join(states or ["pending"]), age(metadata.get("creationTimestamp"))]


def _resource_slice(obj: JSON, age: Age) -> list[Any]:
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    pool = (spec.get("pool") or {}).get("name", "")
    created = age(metadata.get("creationTimestamp"))
    return [metadata["name"], spec.get("nodeName", ""), spec.get("driver", ""), pool, created]


def _device_taint_rule(obj: JSON, age: Age) -> list[Any]:
    metadata, taint = obj["metadata"], (obj.get("spec") or {}).get("taint") or {}
    parts = [taint.get(name, "") for name in ("key", "value", "effect")]
    added = age(taint["timeAdded"]) if taint.get("timeAdded") else ""
    return [metadata["name"], *parts, added, age(metadata.get("creationTimestamp"))]


def _secret(obj: JSON, age: Age) -> list[Any]:
    count = len(obj.get("data") or {})
    return [obj["metadata"]["name"], obj.get("type", ""), count, age(obj["metadata"].get("creationTimestamp"))]


def _service_account(obj: JSON, age: Age) -> list[Any]:
    return [obj["metadata"]["name"], len(obj.get("secrets") or ()), age(obj["metadata"].get("creationTimestamp"))]


def _joined(labels: dict[str, str]) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def _label_selector(selector: JSON) -> str:
    """A label selector in the words of a query, by key."""
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression["key"], expression["operator"]
        values = ",".join(sorted(expression.get("values") or ()))
        texts = {"Exists": key, "DoesNotExist": f"!{key}", "In": f"{key} in ({values})"}
        terms.append((key, texts.get(operator, f"{key} notin ({values})")))
    return ",".join(text for _, text in sorted(terms))


_DEFAULT_COLUMNS: Final = [
    {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
    {"name": "Created At", "type": "date", "format": "", "description": "", "priority": 0},
]

_TABLES: Final[dict[str, tuple[list[JSON], Cells]]] = {
    "clusterrolebindings.rbac.authorization.k8s.io": (
        _columns("Name", "Role", "Age", "+Users", "+Groups", "+ServiceAccounts"),
        _cluster_role_binding,
    ),
    "configmaps": (_columns("Name", "Data", "Age"), _config_map),
    "controllerrevisions.apps": (_columns("Name", "Controller", "Revision", "Age"), _controller_revision),
    "daemonsets.apps": (
        _columns("Name", "#Desired", "#Current", "#Ready", "#Up-to-date", "#Available", "Node Selector", "Age")
        + _columns("+Containers", "+Images", "+Selector"),
        _daemon_set,
    ),
    "deviceclasses.resource.k8s.io": (_columns("Name", "Age"), _name_and_age),
    "events": (
        _columns("Last Seen", "Type", "Reason", "Object", "+Subobject", "+Source", "Message")
        + _columns("+First Seen", "+Count", "+Name"),
        _event,
    ),
    "devicetaintrules.resource.k8s.io": (
        _columns("Name", "Key", "Value", "Effect", "TimeAdded", "Age"),
        _device_taint_rule,
    ),
    "leases.coordination.k8s.io": (_columns("Name", "Holder", "Age"), _lease),
    "namespaces": (_columns("Name", "Status", "Age"), _namespace),
    "nodes": (
        _columns("Name", "Status", "Roles", "Age", "Version")
        + _columns("+Internal-IP", "+External-IP", "+OS-Image", "+Kernel-Version", "+Container-Runtime"),
        _node,
    ),
    "pods": (
        _columns("Name", "Ready", "Status", "Restarts", "Age")
        + _columns("+IP", "+Node", "+Nominated Node", "+Readiness Gates"),
        pod_cells,
    ),
    "priorityclasses.scheduling.k8s.io": (
        _columns("Name", "#Value", "?Global-Default", "Age", "PreemptionPolicy"),
        _priority_class,
    ),
    "resourceclaims.resource.k8s.io": (_columns("Name", "State", "Age"), _resource_claim),
    "resourceclaimtemplates.resource.k8s.io": (_columns("Name", "Age"), _name_and_age),
    "resourceslices.resource.k8s.io": (_columns("Name", "Node", "Driver", "Pool", "Age"), _resource_slice),
    "secrets": (_columns("Name", "Type", "Data", "Age"), _secret),
    "serviceaccounts": (_columns("Name", "Secrets", "Age"), _service_account),
}
