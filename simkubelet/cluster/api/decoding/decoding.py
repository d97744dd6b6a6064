"""Reading a request's object: its types, and the fields that its kind does not have.

Source: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json, sigs.k8s.io/json, and
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from typing import Final

from ....golang.text import quoted
from ...objects.objects import JSON
from ..errors import FieldError, GroupName, StatusError
from ..registry.kinds import Kind
from ..registry.served import Served
from .definitions import schema_of
from .documents import json_document, yaml_document
from .protobuf import ProtobufError, read_protobuf
from .schema import completed, go_name, read_value

__all__ = ["PROTOBUF", "Decoder"]

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_OF_ALL_GROUPS: Final = "DeleteOptions"
_APPLIED: Final = "application/apply-patch+yaml"
_SHOWN_BYTES: Final = 30
_WARN: Final = "Warn"
_STRICT_LIMIT: Final = 100
_IGNORE: Final = "Ignore"
_STRICT: Final = "Strict"
_TYPE_META: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


class Decoder:
    """Checks objects of one kind against its fields; what it does not know is dropped.

    Args:
        validation: what is done about unknown fields: ``Ignore``, ``Warn`` or ``Strict``.
        warnings: where unknown fields are noted.
        served: says which other versions of the kind there are, and of which release its fields are; without it none,
            and those of 1.34.
    """

    def __init__(
        self, group: str, version: str, kind: str, validation: str, warnings: list[str], served: Served | None = None
    ) -> None:
        if validation not in ("", _IGNORE, _WARN, _STRICT):
            why = FieldError.not_supported("fieldValidation", validation, ("", _IGNORE, _STRICT, _WARN))
            raise StatusError.invalid(GroupName("meta.k8s.io", "CreateOptions"), "", [why])
        self._validation = validation or _WARN
        self._warnings = warnings
        self._served = served
        self._group = group
        self._kind = kind
        self._version = version
        self._schema = schema_of(group, version, kind, None if served is None else served.release)

    @property
    def _internal(self) -> str:
        """The package of the type that a request's object becomes."""
        return self._group.partition(".")[0] if self._group not in ("", "events.k8s.io") else "core"

    @classmethod
    def of(cls, kind: Kind, validation: str, warnings: list[str], served: Served | None = None) -> Decoder:
        """The decoder of a served kind."""
        return cls(kind.group, kind.version, kind.kind, validation, warnings, served)

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
        self._check_kind(document, content_type)
        try:
            found = read_value(document, self._schema, self._kind, faults)
        except (TypeError, ValueError) as error:
            raise self._unreadable(_go_words(error)) from None
        if faults and content_type == _APPLIED:
            raise self._untyped(document, faults)
        self._report(faults)
        return dict(found)

    def patched(self, document: JSON, shown: str) -> JSON:
        """A patched object, likewise; the words are those for patches, and show the patch."""
        faults: list[str] = []
        if document.get("kind") != self._kind:
            raise _refused_patch(shown, f"unable to decode {document.get('kind')} into {self._kind}")
        try:
            found = read_value(document, self._schema, self._kind, faults)
        except (TypeError, ValueError) as error:
            raise _refused_patch(shown, _go_words(error)) from None
        if faults and self._validation == _STRICT:
            raise _refused_patch(shown, f"strict decoding error: {', '.join(faults)}")
        self._report(faults)
        return self.completed(dict(found))

    def completed(self, obj: JSON) -> JSON:
        """An object with the texts, numbers and flags that its kind always has."""
        return completed(obj, self._schema)

    def _document(self, body: bytes, content_type: str, faults: list[str]) -> JSON:
        try:
            if content_type == PROTOBUF:
                return read_protobuf(body, self._schema)
            document = yaml_document(body) if content_type.endswith("yaml") else json_document(body, faults)
        except ProtobufError as error:
            raise self._unreadable(str(error)) from None
        except ValueError as error:
            if content_type == _APPLIED:
                raise StatusError.bad_request(f"error decoding YAML: {error}") from None
            why = f"couldn't get version/kind; json parse error: {error}"
            if self._kind == _OF_ALL_GROUPS:
                raise StatusError(500, "", why) from None
            raise self._unrecognized(why, body) from None
        if isinstance(document, dict):
            return document
        why = f"json: cannot unmarshal {go_name(document)} into Go value of type"
        if content_type == _APPLIED:
            raise StatusError.bad_request(f"error decoding YAML: {why} map[string]interface {{}}")
        raise self._unrecognized(f"couldn't get version/kind; json parse error: {why} {_TYPE_META}", body)

    def _check_kind(self, document: JSON, content_type: str) -> None:
        if self._kind == _OF_ALL_GROUPS:
            return
        wanted = f"{self._group}/{self._version}" if self._group else self._version
        if content_type == _APPLIED and (document.get("apiVersion"), document.get("kind")) != (wanted, self._kind):
            group, _, version = str(document.get("apiVersion") or "").rpartition("/")
            given = f"{group}/{version}, Kind={document.get('kind') or ''}"
            raise StatusError.bad_request(f"invalid object type: {given}")
        version, kind = document.get("apiVersion") or wanted, document.get("kind") or self._kind
        if kind != self._kind:
            raise StatusError.bad_request(
                f"{kind} in version {quoted(str(version).rpartition('/')[2])} cannot be handled as a {self._kind}: "
                f"converting ({str(version).rpartition('/')[2]}.{kind}) to ({self._internal}.{self._kind}): "
                "unknown conversion"
            )
        if version != wanted and self._served is not None and self._served.knows(str(version), self._kind):
            raise StatusError.bad_request(
                f"the API version in the data ({version}) does not match the expected API version ({wanted})"
            )
        if version != wanted:
            raise self._unreadable(
                f"no kind {quoted(str(kind))} is registered for version {quoted(str(version))} "
                'in scheme "pkg/runtime/scheme.go:110"'
            )

    def _untyped(self, document: JSON, faults: list[str]) -> StatusError:
        metadata = document.get("metadata") or {}
        name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        paths = [fault.removeprefix('unknown field "').removesuffix('"') for fault in faults]
        texts = [f".{path}: field not declared in schema" for path in paths]
        joined = texts[0] if len(texts) == 1 else "errors:" + "".join(f"\n  {text}" for text in texts)
        about = f"({name}; {self._group}/{self._version}, Kind={self._kind})"
        return StatusError(500, "", f"failed to create typed patch object {about}: {joined}")

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


def _refused_patch(shown: str, why: str) -> StatusError:
    return StatusError.invalid(GroupName("", ""), "", [FieldError.invalid("patch", shown, why)])


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    start = body[:_SHOWN_BYTES]
    text = start.decode(errors="replace") if start.startswith(b"{") else start.hex()
    return f"{text} ..." if len(body) > _SHOWN_BYTES else text


def _go_words(error: TypeError | ValueError) -> str:
    return f"json: cannot unmarshal {error}" if isinstance(error, TypeError) else str(error)
