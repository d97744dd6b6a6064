"""Reading a request's object: its types, and the fields that its kind does not have.

Source: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json, sigs.k8s.io/json, and
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from typing import Any, Final

from ...go.text import quoted
from ..objects import JSON
from .documents import json_document, yaml_document
from .errors import FieldError, GroupName, StatusError
from .kinds import Kind
from .protobuf import ProtobufError, read_protobuf
from .schema import schema_of
from .typed_values import completed, read_value

__all__ = ["PROTOBUF", "Decoder"]

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_OF_ALL_GROUPS: Final = "DeleteOptions"
_APPLIED: Final = "application/apply-patch+yaml"
_SHOWN_BYTES: Final = 30
_WARN: Final = "Warn"
_STRICT_LIMIT: Final = 100
_IGNORE: Final = "Ignore"
_STRICT: Final = "Strict"


class Decoder:
    """Checks objects of one kind against its fields; what it does not know is dropped.

    Args:
        validation: what is done about unknown fields: ``Ignore``, ``Warn`` or ``Strict``.
    """

    def __init__(self, group: str, version: str, kind: str, validation: str, warnings: list[str]) -> None:
        if validation not in ("", _IGNORE, _WARN, _STRICT):
            why = FieldError.not_supported("fieldValidation", validation, (_IGNORE, _STRICT, _WARN))
            raise StatusError.invalid(GroupName("meta.k8s.io", "CreateOptions"), "", [why])
        self._validation = validation or _WARN
        self._warnings = warnings
        self._group = group
        self._kind = kind
        self._version = version
        self._schema = schema_of(group, version, kind)

    @classmethod
    def of(cls, kind: Kind, validation: str, warnings: list[str]) -> Decoder:
        """The decoder of a served kind."""
        return cls(kind.group, kind.version, kind.kind, validation, warnings)

    def read(self, body: bytes, content_type: str) -> JSON:
        """The object of a request, with the fields that its kind always has, without those that it does not have.

        Raises:
            StatusError: as `read_configuration` does.
        """
        return self.completed(self.read_configuration(body, content_type))

    def read_configuration(self, body: bytes, content_type: str) -> JSON:
        """The fields that a request names, without those that its kind does not have.

        Raises:
            StatusError: it cannot be read, is of another kind, has a value of another type than its field, or has
                such fields and they are refused.
        """
        faults: list[str] = []
        document = self._document(body, content_type, faults)
        if isinstance(document, dict):
            self._check_kind(document)
        try:
            found = read_value(document, self._schema, self._kind, faults)
        except (TypeError, ValueError) as error:
            raise self._unreadable(_go_words(error)) from None
        self._report(faults)
        return dict(found)

    def patched(self, document: JSON, shown: str) -> JSON:
        """A patched object, likewise; the words are those for patches, and show the patch."""
        faults: list[str] = []
        try:
            found = read_value(document, self._schema, self._kind, faults)
        except (TypeError, ValueError) as error:
            raise StatusError.bad_request(_go_words(error)) from None
        if faults and self._validation == _STRICT:
            errors = [FieldError.invalid("patch", shown, f"strict decoding error: {', '.join(faults)}")]
            raise StatusError.invalid(GroupName("", ""), "", errors)
        self._report(faults)
        return self.completed(dict(found))

    def completed(self, obj: JSON) -> JSON:
        """An object with the texts, numbers and flags that its kind always has."""
        return completed(obj, self._schema)

    def _document(self, body: bytes, content_type: str, faults: list[str]) -> Any:
        def pairs(items: list[tuple[str, Any]]) -> JSON:
            found: JSON = {}
            for name, value in items:
                if name in found:
                    faults.append(f'duplicate field "{name}"')
                found[name] = value
            return found

        try:
            if content_type == PROTOBUF:
                return read_protobuf(body, self._schema)
            if content_type.endswith("yaml"):
                return yaml_document(body)
            return json_document(body, pairs)
        except ProtobufError as error:
            raise self._unreadable(str(error)) from None
        except ValueError as error:
            if content_type == _APPLIED:
                raise StatusError.bad_request(f"error decoding YAML: {error}") from None
            raise self._unrecognized(str(error), body) from None

    def _check_kind(self, document: JSON) -> None:
        if self._kind == _OF_ALL_GROUPS:
            return
        wanted = f"{self._group}/{self._version}" if self._group else self._version
        version, kind = document.get("apiVersion") or wanted, document.get("kind") or self._kind
        if kind != self._kind:
            raise StatusError.bad_request(
                f"{kind} in version {quoted(str(version).rpartition('/')[2])} cannot be handled as a {self._kind}: "
                f"converting ({version}.{kind}) to ({wanted}.{self._kind}): unknown conversion"
            )
        if version != wanted:
            raise StatusError.bad_request(
                f"the API version in the data ({version}) does not match the expected API version ({wanted})"
            )

    def _report(self, faults: list[str]) -> None:
        if faults and self._validation == _STRICT:
            raise self._unreadable(f"strict decoding error: {', '.join(faults[:_STRICT_LIMIT])}")
        if self._validation == _WARN:
            self._warnings += faults

    def _unrecognized(self, why: str, body: bytes) -> StatusError:
        return StatusError.bad_request(
            f"the object provided is unrecognized (must be of type {self._kind}): {why} ({_summary(body)})"
        )

    def _unreadable(self, why: str) -> StatusError:
        return StatusError.bad_request(
            f"{self._kind} in version {quoted(self._version)} cannot be handled as a {self._kind}: {why}"
        )


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    start = body[:_SHOWN_BYTES]
    text = start.decode(errors="replace") if start.startswith(b"{") else start.hex()
    return f"{text} ..." if len(body) > _SHOWN_BYTES else text


def _go_words(error: TypeError | ValueError) -> str:
    return f"json: cannot unmarshal {error}" if isinstance(error, TypeError) else str(error)
