"""Creating, updating and deleting objects by the strategies of their kinds; what HTTP adds is not here.

Source: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go, registry/rest/delete.go;
pkg/admission/plugin/namespace/lifecycle/admission.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from ....model.version import Version
from ...objects.namespaces import termination
from ...objects.objects import JSON, Objects, copied, with_deletion
from ...objects.selector_verdicts import check_all_read
from ...objects.stored_sizes import TOO_LARGE, is_too_large
from ..errors import NAMESPACE_TERMINATING, FieldError, GroupName, StatusError
from .kinds import Kind, kind_named
from .metadata import at_create, at_update, set_namespace, validate_metadata, validate_metadata_update
from .names import in_words_of
from .strategy import Strategy

__all__ = ["Changed", "DeleteOptions", "Faults", "Registry", "Write"]

_MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"
_IMMORTAL: Final = ("default", "kube-public", "kube-system")
_NAMESPACES: Final = kind_named("namespaces")


@dataclass(slots=True)
class Write:
    """What goes with a write: whether it is only tried, and the warnings that it earned."""

    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)


class Faults(NamedTuple):
    """What is wrong with an object that is to be created, or else whether it is too large."""

    errors: list[FieldError]
    is_too_large: bool


@dataclass(frozen=True, slots=True)
class Changed:
    """An object as an update makes it of the stored one, which is `old`, and what is wrong with it."""

    new: JSON
    old: JSON
    faults: Faults


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
        release: of the server, in whose words labels are refused; the default version's where it is None.
    """

    def __init__(self, objects: Objects, strategies: Mapping[str, Strategy], release: Version | None = None) -> None:
        self.objects = objects
        self._release = release
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
        new = self.prepared(kind, namespace, copied(body))
        return self.create_prepared(kind, new, self.faults(kind, new), write)

    def prepared(self, kind: Kind, namespace: str, new: JSON) -> JSON:
        """A new object, which is the caller's own, as it is to be stored; `faults` and `create_prepared` follow.

        Raises:
            StatusError: it is refused.
        """
        if new.setdefault("metadata", {}).get("resourceVersion"):
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        set_namespace(new, kind, namespace)
        at_create(new, self.objects.wall_time)
        self.admit_into_namespace(kind, namespace, new["metadata"].get("name", ""))
        strategy = self.strategy(kind)
        strategy.default(new)
        strategy.prepare_for_create(new)
        return new

    def faults(self, kind: Kind, new: JSON) -> Faults:
        """What is wrong with a prepared object; see `Strategy.validates_alone`.

        Raises:
            StatusError: it is refused at once.
        """
        errors = self._worded([*validate_metadata(new, kind, self._release), *self.strategy(kind).validate(new)])
        return Faults(errors, not errors and is_too_large(new))

    def create_prepared(self, kind: Kind, new: JSON, faults: Faults, write: Write | None = None) -> JSON:
        """Store a prepared object.

        Raises:
            StatusError: it has faults, or its place is taken.
        """
        write = write or Write()
        _refuse(kind, new, faults.errors)
        write.warnings += self.strategy(kind).warnings(new, None)
        key = kind.key(new["metadata"].get("namespace", ""), new["metadata"]["name"])
        # It may have gone since.
        self.admit_into_namespace(kind, key.namespace, key.name)
        if self.objects.get(key) is not None:
            raise StatusError.already_exists(kind.resource, key.name)
        if write.dry_run:
            return new
        if faults.is_too_large:
            raise _too_large()
        return self.objects.create(key, new)

    def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Callable[[JSON], JSON],
        write: Write | None = None,
        *,
        subresource: str = "",
    ) -> JSON:
        """Store what `change` makes of a copy of an object, of the part that a subresource writes or of all else.

        Raises:
            StatusError: it is refused, or the object is of another resourceVersion than the change names.
        """
        old = self.get(kind, namespace, name)
        return self.update_changed(kind, self.changed(kind, old, change(copied(old)), subresource=subresource), write)

    def changed(self, kind: Kind, old: JSON, new: JSON, *, subresource: str = "") -> Changed:
        """A changed object, which is the caller's own, as it is to be stored; see `Strategy.validates_alone`.

        Raises:
            StatusError: it is refused at once.
        """
        strategy = self.strategy(kind)
        self._check_version(kind, new, old, strategy)
        set_namespace(new, kind, old["metadata"].get("namespace", ""))
        strategy.default(new)
        new["metadata"]["generation"] = old["metadata"].get("generation", 0)
        rules = strategy.update_rules(subresource)
        rules.prepare(new, old)
        if not new["metadata"].get("generation"):
            new["metadata"].pop("generation", None)
        at_update(new, old)
        errors = self._worded([*validate_metadata_update(new, old, self._release), *rules.validate(new, old)])
        return Changed(new, old, Faults(errors, not errors and is_too_large(new)))

    def update_changed(self, kind: Kind, changed: Changed, write: Write | None = None) -> JSON:
        """Store a changed object; what is stored is still its `old`.

        Raises:
            StatusError: it has faults.
        """
        write, strategy = write or Write(), self.strategy(kind)
        new, old = changed.new, changed.old
        _refuse(kind, new, changed.faults.errors)
        write.warnings += strategy.warnings(new, old)
        if write.dry_run:
            return new
        if changed.faults.is_too_large:
            raise _too_large()
        key = kind.key(old["metadata"].get("namespace", ""), old["metadata"]["name"])
        stored = self.objects.replace(key, _sharing(new, old))
        # Who removed the last finalizer of an object that was to be deleted has ended it.
        before = old["metadata"]
        awaited = before.get("deletionTimestamp") and not before.get("deletionGracePeriodSeconds")
        return self.objects.remove(key) if awaited and not strategy.is_held(stored) else stored

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
        if kind is _NAMESPACES and (marked := self._terminated(old, options)) is not None:
            return marked if write.dry_run else self.objects.replace(kind.key("", name), marked), False
        _check_preconditions(kind, old, options)
        new = copied(old)
        metadata = new["metadata"]
        if options.finalizer and options.finalizer not in metadata.get("finalizers", ()):
            metadata["finalizers"] = [*metadata.get("finalizers", ()), options.finalizer]
        waits = bool(metadata.get("finalizers"))
        stays = self._begin_deletion(kind, new, options.grace_s, waits=waits) or waits
        if write.dry_run:
            return new, not stays
        key = kind.key(namespace, name)
        stored = self.objects.replace(key, new)
        return (stored, False) if stays else (self.objects.remove(key), True)

    def _worded(self, errors: list[FieldError]) -> list[FieldError]:
        if self._release is None:
            return errors
        return [replace(error, detail=in_words_of(self._release, error.detail)) for error in errors]

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

    def _terminated(self, old: JSON, options: DeleteOptions) -> JSON | None:
        """A namespace as a deletion leaves it; None where it can be deleted as other objects are.

        Source: pkg/registry/core/namespace/storage/storage.go, ``Delete`` (kubernetes v1.34.4).
        """
        metadata = old["metadata"]
        _check_precondition("UID", options.uid, metadata["uid"], metadata["name"])
        _check_precondition("ResourceVersion", options.resource_version, metadata["resourceVersion"], metadata["name"])
        if metadata.get("deletionTimestamp"):
            return old if old["spec"].get("finalizers") else None
        finalizers = list(metadata.get("finalizers") or ())
        if options.finalizer and options.finalizer not in finalizers:
            finalizers.append(options.finalizer)
        marked = {**metadata, "deletionTimestamp": self.objects.wall_time.now()}
        if finalizers:
            marked["finalizers"] = finalizers
        return {**old, "metadata": marked, "status": {**(old.get("status") or {}), "phase": "Terminating"}}

    def admit_into_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        """Check that something may be created in a namespace, be it a part of an object, as a Binding.

        Raises:
            StatusError: the namespace is not there, or is being terminated.
        """
        if not kind.namespaced:
            return
        self.get(_NAMESPACES, "", namespace)
        why = termination(self.objects, namespace)
        if why is not None:
            error = StatusError.forbidden(kind.resource, name, why)
            cause = {
                "reason": NAMESPACE_TERMINATING,
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


def _sharing(new: Any, old: Any) -> Any:
    """A value with those parts of another one that are equal to its own, as both are kept for watches.

    Lists share what is before and behind the place where something was added, removed or changed.
    """
    if new == old:
        return old if type(new) is type(old) else new
    if isinstance(new, dict) and isinstance(old, dict):
        return {name: _sharing(inner, old.get(name)) for name, inner in new.items()}
    if not isinstance(new, list) or not isinstance(old, list):
        return new
    pairs = zip(new, old, strict=False)
    begin = next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(new), len(old)))
    rest, most = zip(reversed(new), reversed(old), strict=False), min(len(new), len(old)) - begin
    end = next((count for count, (one, other) in enumerate(rest) if count == most or one != other), most)
    between = new[begin : len(new) - end]
    if len(new) == len(old):
        between = list(map(_sharing, between, old[begin : len(old) - end]))
    return [*old[:begin], *between, *(old[-end:] if end else ())]


def _too_large() -> StatusError:
    return StatusError(500, "", TOO_LARGE)


def _refuse(kind: Kind, new: JSON, errors: list[FieldError]) -> None:
    check_all_read()
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


def _check_precondition(part: str, wanted: str | None, found: str, name: str) -> None:
    """Check what a deletion says of a namespace, which has words of its own for it."""
    if wanted is not None and wanted != found:
        why = f"Precondition failed: {part} in precondition: {wanted}, {part} in object meta: {found}"
        raise StatusError.conflict(_NAMESPACES.resource, name, why)
