"""What an API server answers when it refuses: ``metav1.Status`` with the real reasons and texts.

Source: staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go, pkg/util/validation/field/errors.go
(kubernetes v1.34.4).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ...golang.text import quoted
from ..objects.objects import JSON

__all__ = ["NAMESPACE_TERMINATING", "FieldError", "GroupName", "StatusError"]

NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
"""The reason of the cause of a refusal to create something in a namespace that is being terminated."""

_PRINTED: Final = {
    "FieldValueNotFound": "Not found",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueTypeInvalid": "Invalid value",
    "InternalError": "Internal error",
}
_WITHOUT_VALUE: Final = ("FieldValueRequired", "FieldValueForbidden", "FieldValueTooLong", "InternalError")

_MOST_CHARACTERS: Final = 4 << 20
"""Of the errors of one answer."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field: its path (``spec.containers[0].name``), the reason, and the value if shown."""

    reason: str
    path: str
    value: Any = None
    detail: str = ""

    @classmethod
    def required(cls, path: str, detail: str = "") -> FieldError:
        return cls("FieldValueRequired", path, None, detail)

    @classmethod
    def invalid(cls, path: str, value: object, detail: str) -> FieldError:
        return cls("FieldValueInvalid", path, value, detail)

    @classmethod
    def forbidden(cls, path: str, detail: str) -> FieldError:
        return cls("FieldValueForbidden", path, None, detail)

    @classmethod
    def duplicate(cls, path: str, value: object) -> FieldError:
        return cls("FieldValueDuplicate", path, value)

    @classmethod
    def not_found(cls, path: str, value: object) -> FieldError:
        return cls("FieldValueNotFound", path, value)

    @classmethod
    def not_supported(cls, path: str, value: object, supported: Iterable[str]) -> FieldError:
        valid = ", ".join(map(quoted, supported))
        return cls("FieldValueNotSupported", path, value, f"supported values: {valid}" if valid else "")

    @classmethod
    def too_long(cls, path: str, limit: int) -> FieldError:
        return cls("FieldValueTooLong", path, None, f"may not be more than {limit} byte{'' if limit == 1 else 's'}")

    @classmethod
    def too_many(cls, path: str, count: int, limit: int) -> FieldError:
        return cls("FieldValueTooMany", path, count, f"must have at most {limit} item{'' if limit == 1 else 's'}")

    @property
    def body(self) -> str:
        """All but the path."""
        text = _PRINTED[self.reason]
        if self.reason not in _WITHOUT_VALUE:
            text += f": {_printed(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"


@dataclass(frozen=True, slots=True)
class GroupName:
    """A resource or a kind with its group, printed as ``daemonsets.apps``."""

    group: str
    name: str

    def __str__(self) -> str:
        return f"{self.name}.{self.group}" if self.group else self.name


@dataclass
class StatusError(Exception):
    """A request that is refused.

    Attributes:
        details: of the Status; None where it has none.
        metadata: of the Status.
    """

    code: int
    reason: str
    message: str
    details: JSON | None = None
    metadata: JSON = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    def has_cause(self, reason: str) -> bool:
        """Whether one of the details' causes has this reason."""
        return any(cause.get("reason") == reason for cause in (self.details or {}).get("causes") or ())

    def status(self) -> JSON:
        """The answer's body."""
        body: JSON = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return {**body, "code": self.code}

    @classmethod
    def not_found(cls, resource: GroupName, name: str) -> StatusError:
        return cls(404, "NotFound", f"{resource} {quoted(name)} not found", _details(resource, name))

    @classmethod
    def no_such_path(cls) -> StatusError:
        return cls(404, "NotFound", "the server could not find the requested resource", {})

    @classmethod
    def already_exists(cls, resource: GroupName, name: str) -> StatusError:
        return cls(409, "AlreadyExists", f"{resource} {quoted(name)} already exists", _details(resource, name))

    @classmethod
    def conflict(cls, resource: GroupName, name: str, why: str) -> StatusError:
        message = f"Operation cannot be fulfilled on {resource} {quoted(name)}: {why}"
        return cls(409, "Conflict", message, _details(resource, name))

    @classmethod
    def forbidden(cls, resource: GroupName, name: str, why: str) -> StatusError:
        about = f"{resource} {quoted(name)}" if name else str(resource)
        return cls(403, "Forbidden", f"{about} is forbidden: {why}", _details(resource, name))

    @classmethod
    def invalid(cls, kind: GroupName, name: str, errors: Sequence[FieldError]) -> StatusError:
        errors = list(_first(errors))
        texts = list(dict.fromkeys(map(str, errors)))
        together = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        causes = [{"reason": error.reason, "message": error.body, "field": error.path} for error in errors]
        details = {**_details(kind, name), "causes": causes}
        return cls(422, "Invalid", f"{kind} {quoted(name)} is invalid: {together}", details)

    @classmethod
    def bad_request(cls, message: str) -> StatusError:
        return cls(400, "BadRequest", message)

    @classmethod
    def unauthorized(cls) -> StatusError:
        return cls(401, "Unauthorized", "Unauthorized")

    @classmethod
    def expired(cls, message: str) -> StatusError:
        return cls(410, "Expired", message)

    @classmethod
    def method_not_allowed(cls) -> StatusError:
        message = "the server does not allow this method on the requested resource"
        return cls(405, "MethodNotAllowed", message, {})

    @classmethod
    def unsupported_media_type(cls, message: str) -> StatusError:
        return cls(415, "UnsupportedMediaType", message)

    @classmethod
    def too_large(cls, why: str) -> StatusError:
        return cls(413, "RequestEntityTooLarge", f"Request entity too large: {why}")

    @classmethod
    def timeout(cls) -> StatusError:
        message = "Timeout: request did not complete within the allotted timeout"
        return cls(504, "Timeout", message, {})

    @classmethod
    def internal(cls, why: str) -> StatusError:
        return cls(500, "InternalError", f"Internal error occurred: {why}", {"causes": [{"message": why}]})


def _first(errors: Iterable[FieldError]) -> Iterator[FieldError]:
    """As many errors as fit into an answer: each may show the same long value."""
    left = _MOST_CHARACTERS
    for error in errors:
        if left <= 0:
            return
        left -= len(str(error))
        yield error


def _details(about: GroupName, name: str) -> JSON:
    given = {"name": name, "group": about.group, "kind": about.name}
    return {key: value for key, value in given.items() if value}


def _printed(value: object) -> str:
    if isinstance(value, str):
        return quoted(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
