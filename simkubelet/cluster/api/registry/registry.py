"""Creating, updating and deleting objects by the strategies of their kinds; what HTTP adds is not here.

Source: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go, registry/rest/delete.go,
``RESTCreateStrategy``, ``RESTUpdateStrategy``, ``RESTGracefulDeleteStrategy``;
pkg/admission/plugin/namespace/lifecycle/admission.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ...objects.objects import JSON, Objects, copied, with_deletion
from ..errors import FieldError, GroupName, StatusError
from .kinds import Kind, kind_named
from .metadata import at_create, at_update, set_namespace, validate_metadata, validate_metadata_update

__all__ = ["DeleteOptions", "Registry", "Strategy", "Write", "keep_all_but_status", "keep_status"]

_MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"
_IMMORTAL: Final = ("default", "kube-public", "kube-system")
_MOST_STORED_BYTES: Final = 3 * 512 * 1024
_NAMESPACES: Final = kind_named("namespaces")


@dataclass(slots=True)
class Write:
    """What goes with a write: whether it is only tried, and the warnings that it earned."""

    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How an object is to be deleted; the uid and the resourceVersion are what it must have."""

    grace_s: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    finalizer: str | None = None
    """What the garbage collector is asked to do first: ``orphan`` or ``foregroundDeletion``."""


class Registry:
    """The objects of a cluster as its API server lets them be written.

    Args:
        strategies: the rules of each kind, by the text of `Kind.resource`, or with the version behind it where they are
            of that one only, as ``resourceclaims.resource.k8s.io/v1beta1``; a kind without has none.
    """

    def __init__(self, objects: Objects, strategies: Mapping[str, Strategy]) -> None:
        self.objects = objects
        self._strategies = strategies
        self._no_rules = Strategy()

    def strategy(self, kind: Kind) -> Strategy:
        of_all = self._strategies.get(str(kind.resource), self._no_rules)
        return self._strategies.get(f"{kind.resource}/{kind.version}", of_all)

    def get(self, kind: Kind, namespace: str, name: str) -> JSON:
        """What is stored.

        Raises:
            StatusError: nothing is.
        """
        found = self.objects.get(kind.key(namespace, name))
        if found is None:
            raise StatusError.not_found(kind.resource, name)
        return found

    def create(self, kind: Kind, namespace: str, body: JSON, write: Write | None = None) -> JSON:
        """Store a new object.

        Raises:
            StatusError: it is refused.
        """
        write = write or Write()
        new: JSON = copied(body)
        if new.setdefault("metadata", {}).get("resourceVersion"):
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        set_namespace(new, kind, namespace)
        at_create(new, self.objects.wall_time)
        self._admit_into_namespace(kind, namespace, new["metadata"].get("name", ""))
        strategy = self.strategy(kind)
        strategy.default(new)
        strategy.prepare_for_create(new)
        _refuse(kind, new, [*validate_metadata(new, kind), *strategy.validate(new)])
        write.warnings += strategy.warnings(new, None)
        key = kind.key(namespace, new["metadata"]["name"])
        if self.objects.get(key) is not None:
            raise StatusError.already_exists(kind.resource, key.name)
        if write.dry_run:
            return new
        _check_size(new)
        return self.objects.create(key, new)

    def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Callable[[JSON], JSON],
        write: Write | None = None,
        *,
        status: bool = False,
    ) -> JSON:
        """Store what `change` makes of a copy of an object, its status or all else.

        Raises:
            StatusError: it is refused, or the object is of another resourceVersion than the change names.
        """
        write = write or Write()
        old = self.get(kind, namespace, name)
        strategy = self.strategy(kind)
        new = change(copied(old))
        self._check_version(kind, new, old, strategy)
        set_namespace(new, kind, namespace)
        strategy.default(new)
        new["metadata"]["generation"] = old["metadata"].get("generation", 0)
        (strategy.prepare_for_status_update if status else strategy.prepare_for_update)(new, old)
        if not new["metadata"].get("generation"):
            new["metadata"].pop("generation", None)
        at_update(new, old)
        validate = strategy.validate_status_update if status else strategy.validate_update
        _refuse(kind, new, [*validate_metadata_update(new, old), *validate(new, old)])
        write.warnings += strategy.warnings(new, old)
        if write.dry_run:
            return new
        _check_size(new)
        key = kind.key(namespace, name)
        stored = self.objects.replace(key, new)
        # Who removed the last finalizer of an object that was to be deleted has ended it.
        metadata, before = stored["metadata"], old["metadata"]
        awaited = before.get("deletionTimestamp") and not before.get("deletionGracePeriodSeconds")
        if awaited and before.get("finalizers") and not metadata.get("finalizers"):
            return self.objects.remove(key)
        return stored

    def delete(
        self, kind: Kind, namespace: str, name: str, options: DeleteOptions | None = None, write: Write | None = None
    ) -> tuple[JSON, bool]:
        """Delete an object, or begin to.

        Returns:
            its last state, and whether it is gone.

        Raises:
            StatusError: there is none, it is not the one that was meant, or it may not be deleted.
        """
        options, write = options or DeleteOptions(), write or Write()
        if kind is _NAMESPACES and name in _IMMORTAL:
            raise StatusError.forbidden(kind.resource, name, "this namespace may not be deleted")
        old = self.get(kind, namespace, name)
        _check_preconditions(kind, old, options)
        new = copied(old)
        metadata = new["metadata"]
        if options.finalizer and options.finalizer not in metadata.get("finalizers", ()):
            metadata["finalizers"] = [*metadata.get("finalizers", ()), options.finalizer]
        waits = self.strategy(kind).prepare_for_delete(new) or bool(metadata.get("finalizers"))
        stays = self._begin_deletion(kind, new, options.grace_s, waits=waits) or waits
        if write.dry_run:
            return new, not stays
        key = kind.key(namespace, name)
        stored = self.objects.replace(key, new)
        return (stored, False) if stays else (self.objects.remove(key), True)

    def _begin_deletion(self, kind: Kind, new: JSON, requested: int | None, *, waits: bool) -> bool:
        """Set the date at which an object is to be gone; whether that is in the future."""
        metadata = new["metadata"]
        if requested is not None and requested < 0:
            requested = 1
        grace = self.strategy(kind).grace_s(new, requested)
        if "deletionTimestamp" in metadata:
            left = metadata.get("deletionGracePeriodSeconds", 0)
            if not left or grace is None:
                return False
            if requested is None or requested >= left:
                return True
            grace = requested
        elif grace is None and not waits:
            return False
        metadata.update(with_deletion(new, grace or 0, self.objects.wall_time)["metadata"])
        return bool(metadata["deletionGracePeriodSeconds"])

    def _admit_into_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        if not kind.namespaced:
            return
        found = self.get(_NAMESPACES, "", namespace)
        if found.get("status", {}).get("phase") == "Terminating":
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            error = StatusError.forbidden(kind.resource, name, why)
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            error.details = {**(error.details or {}), "causes": [cause]}
            raise error

    def _check_version(self, kind: Kind, new: JSON, old: JSON, strategy: Strategy) -> None:
        given, stored = new["metadata"].get("resourceVersion"), old["metadata"]["resourceVersion"]
        name = old["metadata"]["name"]
        if not given:
            if not strategy.allow_unconditional_update:
                why = FieldError.invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise StatusError.invalid(GroupName(kind.group, kind.plural), name, [why])
            new["metadata"]["resourceVersion"] = stored
        elif given != stored:
            raise StatusError.conflict(kind.resource, name, _MODIFIED)


def _check_size(new: JSON) -> None:
    """Refuse what etcd would. Its values are shorter than JSON, so only their texts are counted.

    Source: etcd server/etcdserver/v3_server.go, ``processInternalRaftRequestOnce``; server/embed/config.go,
    ``DefaultMaxRequestBytes`` (v3.6.4).
    """
    if _text_length(new) > _MOST_STORED_BYTES:
        raise StatusError(500, "", "etcdserver: request is too large")


def _text_length(value: object) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_text_length, value.values()))
    return sum(map(_text_length, value)) if isinstance(value, list) else 0


def _refuse(kind: Kind, new: JSON, errors: list[FieldError]) -> None:
    if errors:
        raise StatusError.invalid(kind.group_kind, new["metadata"].get("name", ""), errors)


def _check_preconditions(kind: Kind, old: JSON, options: DeleteOptions) -> None:
    metadata = old["metadata"]
    about = GroupName(kind.group, kind.kind)
    if options.uid is not None and options.uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({metadata['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise StatusError.conflict(about, metadata["name"], why)
    version = metadata["resourceVersion"]
    if options.resource_version is not None and options.resource_version != version:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match "
            f"the ResourceVersion in record ({version}). The object might have been modified"
        )
        raise StatusError.conflict(about, metadata["name"], why)


class Strategy:
    """The rules of one kind; as it stands, those of a kind without rules and without a status.

    A hook may change the object called ``new``: it is the caller's own copy. ``old`` is what is stored and is never
    changed; parts of it that go into ``new`` are copied. Hooks are called in the order in which they are written here.
    """

    allow_unconditional_update: bool = True
    """An update without a resourceVersion replaces the stored object."""

    allow_create_on_update: bool = False
    """A PUT (or an apply) to a name that is free creates the object."""

    empty: Mapping[str, Any] = {}
    """What Go writes of an object of which nothing is set, beyond what its schema requires."""

    def default(self, new: JSON) -> None:
        """Fill in what the caller left out, as decoding does; at each write, before the hooks below."""

    def prepare_for_create(self, new: JSON) -> None:
        """Drop what a caller may not set, and set what the server decides. The name and namespace stand already."""

    def validate(self, new: JSON) -> list[FieldError]:
        """What is wrong with a new object, its metadata aside."""
        return []

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        """Take back the changes that an update does not make, those of the status for example."""

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        """What an update may not change, or changes into something wrong."""
        return self.validate(new)

    def prepare_for_status_update(self, new: JSON, old: JSON) -> None:
        """Take back the changes that an update of the status does not make: all outside of ``status``."""
        keep_all_but_status(new, old)

    def validate_status_update(self, new: JSON, old: JSON) -> list[FieldError]:
        """What is wrong with a new status."""
        return []

    def warnings(self, new: JSON, old: JSON | None) -> list[str]:
        """The texts of Warning headers; ``old`` is None where the object is new."""
        return []

    def grace_s(self, obj: JSON, requested: int | None) -> int | None:
        """How many seconds an object that is to be deleted stays, so that others can end what it stands for.

        Args:
            obj: what is stored, not to be changed.
            requested: what the caller asked for.

        Returns:
            None where the kind knows no graceful deletion; 0 for one that goes at once nevertheless.
        """
        return None

    def prepare_for_delete(self, new: JSON) -> bool:
        """Note in an object that it is to be deleted; whether it stays until what it stands for is cleaned up."""
        return False


def keep_status(new: JSON, old: JSON) -> None:
    """Take back every change of the status."""
    new.pop("status", None)
    if "status" in old:
        new["status"] = copied(old["status"])


def keep_all_but_status(new: JSON, old: JSON) -> None:
    """Take back every change outside of the status; who manages which field, and the version, stay the caller's."""
    status = new.get("status")
    kept = {name: new["metadata"][name] for name in ("managedFields", "resourceVersion") if name in new["metadata"]}
    new.clear()
    new.update(copied({name: value for name, value in old.items() if name != "status"}))
    new["metadata"].update(kept)
    if status is not None:
        new["status"] = status
