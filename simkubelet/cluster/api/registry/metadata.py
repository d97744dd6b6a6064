"""The rules of ``metadata`` that hold for all kinds.

Source: staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go, staging/src/k8s.io/apiserver/pkg/registry/rest
(meta.go, create.go, update.go; kubernetes v1.34.4).
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping
from typing import Any, Final

from ....golang.text import json_string
from ....model.version import Version
from ...objects.objects import JSON, WallTime
from ..errors import FieldError, StatusError
from .kinds import Kind
from .names import is_dns_label, is_label_value, is_qualified_name

__all__ = [
    "at_create",
    "at_update",
    "check_place",
    "check_uid",
    "finalizer_faults",
    "set_namespace",
    "validate_annotations",
    "validate_metadata",
    "validate_metadata_update",
    "validate_size",
]

_GENERATED_FROM: Final = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_GENERATED: Final = 63
_RANDOM_LENGTH: Final = 5
_ANNOTATIONS_LIMIT_BYTES: Final = 256 * 1024
_IMMUTABLE: Final = "field is immutable"
_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")
_NO_FINALIZER: Final = "name is neither a standard finalizer name nor is it fully qualified"


def at_create(new: JSON, wall_time: WallTime) -> None:
    """Give a new object its uid, its date and, where it has a generateName only, a name."""
    metadata = new["metadata"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
        metadata.pop(name, None)
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = wall_time.now()
    base = metadata.get("generateName")
    metadata.setdefault("name", "")
    if base and not metadata["name"]:
        suffix = "".join(secrets.choice(_GENERATED_FROM) for _ in range(_RANDOM_LENGTH))
        metadata["name"] = base[: _LONGEST_GENERATED - _RANDOM_LENGTH] + suffix


def at_update(new: JSON, old: JSON) -> None:
    """Take back what no update changes."""
    metadata, before = new["metadata"], old["metadata"]
    if not metadata.get("uid"):
        metadata["uid"] = before["uid"]
    metadata["creationTimestamp"] = before["creationTimestamp"]
    if before.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = before["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in before:
        metadata.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])
    metadata.pop("selfLink", None)


def set_namespace(new: JSON, kind: Kind, namespace: str) -> None:
    """Put an object into the namespace of the request.

    Raises:
        StatusError: it names another one.
    """
    metadata = new["metadata"]
    if not kind.namespaced:
        metadata.pop("namespace", None)
    elif metadata.setdefault("namespace", namespace) != namespace:
        raise StatusError.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_place(new: JSON, namespace: str, name: str) -> None:
    """See that an object is of the name and namespace of its request.

    Raises:
        StatusError: it is not.
    """
    metadata = new.get("metadata", {})
    given = metadata.get("name", "")
    if given != name:
        raise StatusError.bad_request(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
            if given
            else f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    elsewhere = metadata.get("namespace")
    if elsewhere and namespace and elsewhere != namespace:
        wanted = f"the namespace on the request ({namespace})"
        raise StatusError.bad_request(f"the namespace of the object ({elsewhere}) does not match {wanted}")


def check_uid(new: JSON, stored: JSON, kind: Kind) -> None:
    """See that an object which replaces another one means that one.

    Raises:
        StatusError: it names another uid.
    """
    given, uid = new.get("metadata", {}).get("uid"), stored["metadata"]["uid"]
    if given and given != uid:
        why = f"Precondition failed: UID in precondition: {given}, UID in object meta: {uid}"
        raise StatusError.conflict(kind.resource, stored["metadata"]["name"], why)


def validate_metadata(new: JSON, kind: Kind, release: Version | None = None) -> list[FieldError]:
    """What is wrong with a new object's metadata, in the words of a release."""
    metadata = new["metadata"]
    errors = []
    if base := metadata.get("generateName"):
        # A generated name may end as it likes, a suffix follows.
        errors += [
            FieldError.invalid("metadata.generateName", base, fault)
            for fault in kind.check_name(base.rstrip("-.") or "-")
        ]
    if name := metadata.get("name"):
        errors += [FieldError.invalid("metadata.name", name, fault) for fault in kind.check_name(name)]
    else:
        errors.append(FieldError.required("metadata.name", "name or generateName is required"))
    if kind.namespaced:
        errors += [
            FieldError.invalid("metadata.namespace", metadata["namespace"], fault)
            for fault in is_dns_label(metadata["namespace"])
        ]
    return errors + _validate_common(metadata, release)


def validate_metadata_update(new: JSON, old: JSON, release: Version | None = None) -> list[FieldError]:
    """What is wrong with an update's metadata, in the words of a release."""
    metadata, before = new["metadata"], old["metadata"]
    errors = []
    added = sorted(set(metadata.get("finalizers") or ()) - set(before.get("finalizers") or ()))
    if before.get("deletionTimestamp") and added:
        listed = ", ".join(map(json_string, added))
        why = "no new finalizers can be added if the object is being deleted, found new finalizers"
        errors.append(FieldError.forbidden("metadata.finalizers", f"{why} []string{{{listed}}}"))
    errors += [
        FieldError.invalid(f"metadata.{name}", metadata.get(name), _IMMUTABLE)
        for name in ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        if metadata.get(name) != before.get(name)
    ]
    return errors + _validate_common(metadata, release)


def validate_annotations(annotations: Mapping[str, str], path: str, release: Version | None = None) -> list[FieldError]:
    """What is wrong with annotations, in the words of a release."""
    errors = [
        FieldError.invalid(path, key, fault) for key in annotations for fault in is_qualified_name(key.lower(), release)
    ]
    return errors + validate_size(annotations, path)


def validate_size(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    """Whether annotations are too large together."""
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    return [FieldError.too_long(path, _ANNOTATIONS_LIMIT_BYTES)] if size > _ANNOTATIONS_LIMIT_BYTES else []


def _validate_common(metadata: JSON, release: Version | None) -> list[FieldError]:
    errors = []
    for key, value in (metadata.get("labels") or {}).items():
        errors += [FieldError.invalid("metadata.labels", key, fault) for fault in is_qualified_name(key, release)]
        errors += [FieldError.invalid("metadata.labels", value, fault) for fault in is_label_value(value, release)]
    errors += validate_annotations(metadata.get("annotations") or {}, "metadata.annotations", release)
    for owner in metadata.get("ownerReferences") or ():
        errors += _validate_owner(owner, "metadata.ownerReferences")
    for finalizer in metadata.get("finalizers") or ():
        errors += [
            FieldError.invalid("metadata.finalizers", finalizer, fault)
            for fault in is_qualified_name(finalizer, release)
        ]
    return errors + [
        FieldError.invalid(f"metadata.finalizers[{index}]", finalizer, _NO_FINALIZER)
        for index, finalizer in enumerate(metadata.get("finalizers") or ())
        if "/" not in finalizer and finalizer not in _FINALIZERS
    ]


def finalizer_faults(finalizer: str, path: str, release: Version | None = None) -> list[FieldError]:
    """What is wrong with a finalizer of a namespace, in the words of a release.

    Source: pkg/apis/core/validation/validation.go, ``validateFinalizerName`` (kubernetes v1.34.4).
    """
    errors = [FieldError.invalid(path, finalizer, fault) for fault in is_qualified_name(finalizer, release)]
    if "/" not in finalizer and finalizer not in _FINALIZERS:
        errors.append(FieldError.invalid(path, finalizer, _NO_FINALIZER))
    return errors


def _validate_owner(owner: dict[str, Any], path: str) -> list[FieldError]:
    texts = {"apiVersion": "version must not be empty", "kind": "must not be empty", "name": "must not be empty"}
    texts["uid"] = "must not be empty"
    return [FieldError.invalid(f"{path}.{name}", "", why) for name, why in texts.items() if not owner.get(name)]
