"""The kinds that the API server serves: their names, verbs, subresources and forms.

Source: api/discovery (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...objects.objects import JSON, Key
from ..errors import GroupName, StatusError
from .event_versions import core_event, new_event
from .names import is_dns_label, is_dns_subdomain, is_path_segment
from .selectable_fields import CORE_EVENT_FIELDS, EVENT_FIELDS, POD_FIELDS, SelectableFields, field_at, flag_at

__all__ = ["KINDS", "Kind", "SubResource", "kind_at", "kind_named"]

_ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_ALL_BUT_DELETECOLLECTION: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
_STATUS_VERBS: Final = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class SubResource:
    """What stands below an object: ``pods/binding``; the kind is the one that it takes or gives."""

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
    selectable: SelectableFields | None = None
    stored_as: str = ""
    from_stored: Callable[[JSON], JSON] = _as_it_is
    to_stored: Callable[[JSON], JSON] = _as_it_is

    @property
    def resource(self) -> GroupName:
        return GroupName(self.group, self.plural)

    @property
    def group_kind(self) -> GroupName:
        """What errors name: the kind in whose form objects are stored."""
        return GroupName("" if self.stored_as else self.group, self.kind)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key_kind(self) -> str:
        """What stands in `Key.kind`."""
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
            raise StatusError.bad_request(f"field label not supported: {field}")
        known = 'only "metadata.name", "metadata.namespace"'
        raise StatusError.bad_request(f'"{field}" is not a known field selector: {known}')


def _status_of(kind: str) -> SubResource:
    return SubResource("status", _STATUS_VERBS, kind)


KINDS: Final = (
    Kind(
        "", "v1", "bindings", "binding", "Binding", verbs=("create",)
    ),
    Kind(
        "", "v1", "configmaps", "configmap", "ConfigMap", short_names=("cm",)
    ),
    Kind(
        "", "v1", "events", "event", "Event", short_names=("ev",), selectable=CORE_EVENT_FIELDS
    ),
    Kind(
        "", "v1", "namespaces", "namespace", "Namespace",
        namespaced=False,
        short_names=("ns",),
        verbs=_ALL_BUT_DELETECOLLECTION,
        subresources=(SubResource("finalize", ("update",), "Namespace"), _status_of("Namespace")),
        check_name=is_dns_label,
        returns_deleted=True,
        selectable={"status.phase": field_at("status", "phase")},
    ),
    Kind(
        "", "v1", "nodes", "node", "Node",
        namespaced=False,
        short_names=("no",),
        subresources=(_status_of("Node"),),
        selectable={"spec.unschedulable": flag_at("spec", "unschedulable")},
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
        selectable=POD_FIELDS,
        returns_deleted=True,
    ),
    Kind(
        "", "v1", "secrets", "secret", "Secret", selectable={"type": field_at("type")}
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
        selectable=EVENT_FIELDS,
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
        "scheduling.k8s.io", "v1", "priorityclasses", "priorityclass", "PriorityClass",
        namespaced=False,
        short_names=("pc",),
    ),
)  # fmt: skip


def kind_at(group: str, version: str, plural: str) -> Kind | None:
    """The kind that is served at a path."""
    return _BY_PATH.get((group, version, plural))


def kind_named(key_kind: str) -> Kind:
    """The kind in whose form objects with this `Key.kind` are stored."""
    return _BY_KEY[key_kind]


_BY_PATH: Final = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}
_BY_KEY: Final = {kind.key_kind: kind for kind in KINDS if not kind.stored_as}
