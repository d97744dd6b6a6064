"""The kinds that the API server knows: their names, verbs, subresources, forms and selectable fields.

Which of them one server serves says `served`. Events have two forms: core's, in which they are stored, and that of
events.k8s.io. The kinds of resource.k8s.io are stored as ``v1``, and have its betas beside it.

Source: api/discovery; the ``*SelectableFields`` functions in pkg/registry/{core,resource}/*/strategy.go;
pkg/apis/events/v1/conversion.go, ``AddFieldLabelConversionsForEvent``; pkg/apis/resource/v1/conversion.go
(kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ...objects.objects import JSON, Key
from ..errors import GroupName, StatusError
from .device_versions import from_v1, to_v1
from .event_forms import core_event, new_event
from .names import is_dns_label, is_dns_subdomain, is_path_segment

__all__ = [
    "KINDS",
    "Kind",
    "SubResource",
    "kind_at",
    "kind_named",
    "kind_of_version",
]

_SelectableFields: TypeAlias = Mapping[str, Callable[[JSON], str]]
_INVOLVED: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_ALL_BUT_DELETECOLLECTION: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
_STATUS_VERBS: Final = ("get", "patch", "update")
_RESOURCE: Final = "resource.k8s.io"
_NO_SLICE_FIELD: Final = f"field label not supported for {_RESOURCE}/{{}}, Kind=ResourceSlice"
_BETAS: Final = ("v1beta2", "v1beta1")


def _field_at(*path: str) -> Callable[[JSON], str]:
    """Return a reader of the field at a path; a missing field is an empty text."""

    def value(obj: JSON) -> str:
        found: object = obj
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return "" if found is None else str(found)

    return value


def _flag_at(*path: str) -> Callable[[JSON], str]:
    """Return a reader of the field at a path as ``true`` or ``false``."""
    text = _field_at(*path)
    return lambda obj: "true" if text(obj) == "True" else "false"


def _pod_ip(pod: JSON) -> str:
    ips = pod.get("status", {}).get("podIPs") or [{}]
    return str(ips[0].get("ip", ""))


def _event_source(event: JSON) -> str:
    return _field_at("source", "component")(event) or _field_at("reportingComponent")(event)


_POD_FIELDS: Final[_SelectableFields] = {
    "spec.nodeName": _field_at("spec", "nodeName"),
    "spec.restartPolicy": _field_at("spec", "restartPolicy"),
    "spec.schedulerName": _field_at("spec", "schedulerName"),
    "spec.serviceAccountName": _field_at("spec", "serviceAccountName"),
    "spec.hostNetwork": _flag_at("spec", "hostNetwork"),
    "status.phase": _field_at("status", "phase"),
    "status.podIP": _pod_ip,
    "status.nominatedNodeName": _field_at("status", "nominatedNodeName"),
}
_CORE_EVENT_FIELDS: Final[_SelectableFields] = {
    **{f"involvedObject.{name}": _field_at("involvedObject", name) for name in _INVOLVED},
    "reason": _field_at("reason"),
    "reportingComponent": _field_at("reportingComponent"),
    "source": _event_source,
    "type": _field_at("type"),
}

_EVENT_FIELDS: Final[_SelectableFields] = {
    **{f"regarding.{name}": _field_at("involvedObject", name) for name in _INVOLVED},
    "reason": _field_at("reason"),
    "reportingController": _field_at("reportingComponent"),
    "type": _field_at("type"),
}
"""Of events.k8s.io, read from an Event as it is stored."""


@dataclass(frozen=True, slots=True)
class SubResource:
    """A subresource of an object, as ``pods/binding``; the kind is the one that it takes or gives."""

    name: str
    verbs: tuple[str, ...]
    kind: str
    group: str = ""
    version: str = ""


def _as_it_is(obj: JSON) -> JSON:
    return obj


@dataclass(frozen=True)
class Kind:
    """One kind in one version of its group.

    Attributes:
        returns_deleted: a DELETE is answered with the object instead of a Status.
        check_name: the faults of a name, each a sentence.
        selectable: the fields besides name and namespace that a field selector may name, read from what is stored.
        not_selectable: what is said of any other field.
        stored_as: the `key_kind` of the kind in whose form objects are stored, where that is another one.
        from_stored: what is stored, in this kind's form.
        to_stored: the other way.
    """

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = _ALL_VERBS
    subresources: tuple[SubResource, ...] = ()
    returns_deleted: bool = False
    check_name: Callable[[str], list[str]] = is_dns_subdomain
    selectable: _SelectableFields | None = None
    not_selectable: str = "field label not supported"
    stored_as: str = ""
    from_stored: Callable[[JSON], JSON] = _as_it_is
    to_stored: Callable[[JSON], JSON] = _as_it_is

    @property
    def resource(self) -> GroupName:
        return GroupName(self.group, self.plural)

    @property
    def group_kind(self) -> GroupName:
        """What errors name: the kind in whose form objects are stored."""
        return GroupName(self.key_kind.partition(".")[2], self.kind)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key_kind(self) -> str:
        """The value of `Key.kind`."""
        return self.stored_as or str(self.resource)

    def key(self, namespace: str, name: str) -> Key:
        return Key(self.key_kind, namespace if self.namespaced else "", name)

    @property
    def has_status(self) -> bool:
        return any(subresource.name == "status" for subresource in self.subresources)

    def present(self, obj: JSON) -> JSON:
        """An object as this kind, for the wire."""
        return {
            "kind": self.kind,
            "apiVersion": self.api_version,
            **self.bare(obj),
        }

    def bare(self, obj: JSON) -> JSON:
        """An object in this kind's form, not naming it, as the items of a list."""
        return {name: value for name, value in self.from_stored(obj).items() if name not in ("kind", "apiVersion")}

    def field_value(self, field: str, obj: JSON) -> str:
        """What a field selector compares.

        Raises:
            StatusError: the kind's objects cannot be selected by this field.
        """
        if field == "metadata.name" or (field == "metadata.namespace" and (self.namespaced or not self.selectable)):
            return str(obj["metadata"].get(field.removeprefix("metadata."), ""))
        getter = (self.selectable or {}).get(field)
        if getter is not None:
            return getter(obj)
        if self.selectable:
            raise StatusError.bad_request(f"{self.not_selectable}: {field}")
        known = 'only "metadata.name", "metadata.namespace"'
        raise StatusError.bad_request(f'"{field}" is not a known field selector: {known}')


def _status_of(kind: str) -> SubResource:
    return SubResource("status", _STATUS_VERBS, kind)


_STORED_KINDS: Final = (
    Kind(
        "", "v1", "bindings", "binding", "Binding", verbs=("create",)
    ),
    Kind(
        "", "v1", "configmaps", "configmap", "ConfigMap", short_names=("cm",)
    ),
    Kind(
        "", "v1", "events", "event", "Event", short_names=("ev",), selectable=_CORE_EVENT_FIELDS
    ),
    Kind(
        "", "v1", "namespaces", "namespace", "Namespace",
        namespaced=False,
        short_names=("ns",),
        verbs=_ALL_BUT_DELETECOLLECTION,
        subresources=(SubResource("finalize", ("update",), "Namespace"), _status_of("Namespace")),
        check_name=is_dns_label,
        returns_deleted=True,
        selectable={"status.phase": _field_at("status", "phase")},
    ),
    Kind(
        "", "v1", "nodes", "node", "Node",
        namespaced=False,
        short_names=("no",),
        subresources=(_status_of("Node"),),
        selectable={"spec.unschedulable": _flag_at("spec", "unschedulable")},
    ),
    Kind(
        "", "v1", "pods", "pod", "Pod",
        short_names=("po",),
        categories=("all",),
        subresources=(
            SubResource("binding", ("create",), "Binding"),
            SubResource("eviction", ("create",), "Eviction", "policy", "v1"),
            SubResource("log", ("get",), "Pod"),
            _status_of("Pod"),
        ),
        selectable=_POD_FIELDS,
        returns_deleted=True,
    ),
    Kind(
        "", "v1", "secrets", "secret", "Secret", selectable={"type": _field_at("type")}
    ),
    Kind(
        "", "v1", "serviceaccounts", "serviceaccount", "ServiceAccount", short_names=("sa",), returns_deleted=True
    ),
    Kind(
        "apps", "v1", "controllerrevisions", "controllerrevision", "ControllerRevision"
    ),
    Kind(
        "apps", "v1", "daemonsets", "daemonset", "DaemonSet",
        short_names=("ds",),
        categories=("all",),
        subresources=(_status_of("DaemonSet"),),
    ),
    Kind(
        "authentication.k8s.io", "v1", "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview",
        namespaced=False,
        verbs=("create",),
    ),
    Kind(
        "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "selfsubjectaccessreview", "SelfSubjectAccessReview",
        namespaced=False,
        verbs=("create",),
    ),
    Kind(
        "coordination.k8s.io", "v1", "leases", "lease", "Lease"
    ),
    Kind(
        "events.k8s.io", "v1", "events", "event", "Event",
        short_names=("ev",),
        selectable=_EVENT_FIELDS,
        stored_as="events",
        from_stored=new_event,
        to_stored=core_event,
    ),
    Kind(
        "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "clusterrolebinding", "ClusterRoleBinding",
        namespaced=False,
        check_name=is_path_segment,
    ),
    Kind(
        "rbac.authorization.k8s.io", "v1", "clusterroles", "clusterrole", "ClusterRole",
        namespaced=False,
        check_name=is_path_segment,
    ),
    Kind(
        _RESOURCE, "v1", "deviceclasses", "deviceclass", "DeviceClass", namespaced=False, returns_deleted=True
    ),
    Kind(
        _RESOURCE, "v1", "devicetaintrules", "devicetaintrule", "DeviceTaintRule",
        namespaced=False,
        subresources=(_status_of("DeviceTaintRule"),),
    ),
    Kind(
        _RESOURCE, "v1", "resourceclaims", "resourceclaim", "ResourceClaim",
        subresources=(_status_of("ResourceClaim"),),
        returns_deleted=True,
    ),
    Kind(
        _RESOURCE, "v1", "resourceclaimtemplates", "resourceclaimtemplate", "ResourceClaimTemplate",
        returns_deleted=True,
    ),
    Kind(
        _RESOURCE, "v1", "resourceslices", "resourceslice", "ResourceSlice",
        namespaced=False,
        returns_deleted=True,
        selectable={
            "spec.driver": _field_at("spec", "driver"),
            "spec.nodeName": _field_at("spec", "nodeName"),
            "spec.pool.name": _field_at("spec", "pool", "name"),
        },
        not_selectable=_NO_SLICE_FIELD.format("v1"),
    ),
    Kind(
        "scheduling.k8s.io", "v1", "priorityclasses", "priorityclass", "PriorityClass",
        namespaced=False,
        short_names=("pc",),
    ),
)  # fmt: skip


def _has_betas(kind: Kind) -> bool:
    """Whether a kind is served in betas as well; those of DeviceTaintRules are not simulated."""
    return kind.group == _RESOURCE and kind.kind != "DeviceTaintRule"


def _beta(kind: Kind, version: str) -> Kind:
    """Return a kind that is stored as ``v1`` as a beta has it."""
    return replace(
        kind,
        version=version,
        not_selectable=_NO_SLICE_FIELD.format(version) if kind.selectable else kind.not_selectable,
        stored_as=kind.key_kind,
        from_stored=from_v1(version, kind.kind),
        to_stored=to_v1(version, kind.kind),
    )


KINDS: Final = (
    *_STORED_KINDS,
    *(_beta(kind, version) for version in _BETAS for kind in _STORED_KINDS if _has_betas(kind)),
)
_BY_PATH: Final = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}
_BY_KEY: Final = {kind.key_kind: kind for kind in KINDS if not kind.stored_as}


def kind_at(group: str, version: str, plural: str) -> Kind | None:
    """The kind of a path; None where there is no such kind."""
    return _BY_PATH.get((group, version, plural))


def kind_named(key_kind: str) -> Kind:
    """The kind in whose form objects with this `Key.kind` are stored."""
    return _BY_KEY[key_kind]


def kind_of_version(kind: Kind, api_version: str) -> Kind:
    """A kind as another version or group has it; the kind itself where none there has its objects."""
    same = (other for other in KINDS if (other.key_kind, other.api_version) == (kind.key_kind, api_version))
    return next(same, kind)
