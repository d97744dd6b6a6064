"""The form of an answer: JSON or protobuf, the object itself, rows of a table, or its metadata alone.

Objects, their metadata and refusals may be protobuf; tables, discovery and schemas are JSON.

Source: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation; handlers/response.go; handlers/rest.go,
``AllowsMediaTypeTransform`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from ....model.version import Version
from ...objects.objects import JSON, WallTime
from ..decoding.decoding import PROTOBUF
from ..decoding.definitions import schema_of
from ..decoding.protobuf_writing import framed_event, written_list, written_metadata, written_object, written_status
from ..errors import FieldError, StatusError
from ..registry.kinds import Kind
from .lists import Listed
from .tables import table_of
from .watches import BOOKMARK, ERROR

__all__ = ["JSON_TYPE", "Events", "Form", "View", "encoded", "encoded_status", "form_asked"]

JSON_TYPE: Final = "application/json"
_ACCEPTED: Final = ("application/json", "application/yaml", PROTOBUF)
_ANY: Final = ("*/*", "application/*", JSON_TYPE)
_KNOWN: Final = frozenset((*_ANY, *_ACCEPTED))
_META: Final = "meta.k8s.io"
_TABLE: Final = "Table"
_PARTIAL: Final = "PartialObjectMetadata"
_MOST_EVENTS, _MOST_BYTES = 256, 4 << 20
"""Of the latest events, whose bytes are kept."""
_INCLUDED: Final = ("", "None", "Metadata", "Object")


@dataclass(frozen=True, slots=True)
class Form:
    """A form: `kind` is ``Table``, ``PartialObjectMetadata``, ``APIGroupDiscoveryList``; empty for the object."""

    kind: str = ""
    group: str = ""
    version: str = ""
    media_type: str = JSON_TYPE


def form_asked(accept: str, served: Iterable[Form], *, with_protobuf: bool = False) -> Form:
    """The first form that a client accepts and that is served; the object itself always is.

    Raises:
        StatusError: the client accepts neither JSON nor, where it is served, protobuf.
    """
    ranges = list(_media_ranges(accept or "*/*"))
    for media_type, parameters in ranges:
        form = Form(parameters.get("as", ""), parameters.get("g", ""), parameters.get("v", ""))
        if media_type in _ANY and (form == Form() or form in served):
            return form
        if with_protobuf and media_type == PROTOBUF and form.kind != _TABLE and (form == Form() or form in served):
            return replace(form, media_type=PROTOBUF)
    accepted = ", ".join(_ACCEPTED)
    if not ranges:
        message = f"406: Not Acceptable\n\nAvailable representations: {accepted}"
        raise StatusError(406, "NotAcceptable", message, {})
    raise StatusError(406, "NotAcceptable", f"only the following media types are accepted: {accepted}")


def encoded(content: Any, *, pretty: bool = False) -> bytes:
    """JSON that ends with a line feed, indented if a person reads it."""
    if pretty:
        return json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def encoded_status(accept: str, status: JSON, *, pretty: bool = False) -> tuple[bytes, str]:
    """A Status and its media type: what the client would rather have, JSON where it accepts none of them."""
    known = (media_type for media_type, _ in _media_ranges(accept) if media_type in (*_ANY, PROTOBUF))
    if next(known, JSON_TYPE) == PROTOBUF:
        return written_status(status), PROTOBUF
    return encoded(status, pretty=pretty), JSON_TYPE


def _media_ranges(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The media types of a header that we know, with their parameters; each once.

    A header of a mebibyte, which a client without a token may send, too, has half a million others.
    """
    for media_range in dict.fromkeys(accept.split(",")):
        media_type, _, parameters = media_range.partition(";")
        if (media_type := media_type.strip()) in _KNOWN:
            pairs = (parameter.strip().partition("=") for parameter in parameters.split(";"))
            yield media_type, {name: value for name, _, value in pairs}


_OF_OBJECTS: Final = tuple(Form(kind, _META, version) for kind in (_TABLE, _PARTIAL) for version in ("v1", "v1beta1"))
_OF_LISTS: Final = tuple(
    Form(kind, _META, version) for kind in (_TABLE, f"{_PARTIAL}List") for version in ("v1", "v1beta1")
)


class View:
    """The form of the answers to one request.

    Args:
        accept: the request's header.
        include: what the rows of a table carry beside their cells: ``Metadata``, ``Object`` or ``None``.
        of_list: the request is for a list.
    """

    def __init__(
        self, kind: Kind, accept: str, include: str, wall_time: WallTime, release: Version, *, of_list: bool = False
    ) -> None:
        if include not in _INCLUDED:
            why = FieldError.invalid("includeObject", include, "must be 'Metadata', 'Object', 'None', or empty")
            raise StatusError.bad_request(f"Unable to convert to Table as requested: {why}")
        self._kind = kind
        self._form = form_asked(accept, _OF_LISTS if of_list else _OF_OBJECTS, with_protobuf=True)
        self._include = include or "Metadata"
        self._wall_time = wall_time
        self._release = release
        self._has_shown_columns = False

    @property
    def media_type(self) -> str:
        """Of an answer that does not last."""
        return self._form.media_type

    @property
    def stream_type(self) -> str:
        """The media type of a watch."""
        return JSON_TYPE if self.media_type == JSON_TYPE else f"{self.media_type};stream=watch"

    def encoded(self, content: JSON, *, pretty: bool = False) -> bytes:
        """What `object` or `list` gave, as bytes of the media type."""
        if self.media_type == JSON_TYPE:
            return encoded(content, pretty=pretty)
        if self._form.kind:
            return written_metadata(content)
        schema = schema_of(self._kind.group, self._kind.version, self._kind.kind, self._release)
        return (written_list if "items" in content else written_object)(content, schema)

    def encoded_event(self, type_: str, obj: JSON) -> bytes:
        """One event of a watch, as bytes of the media type."""
        event = self.event(type_, obj)
        if self.media_type == JSON_TYPE:
            return encoded(event)
        return framed_event(type_, written_status(obj) if type_ == ERROR else self.encoded(event["object"]))

    @property
    def of_whole_objects(self) -> tuple[str, str] | None:
        """What the bytes of an event follow from besides its object; None where its form is another."""
        return None if self._form.kind else (self.media_type, self._kind.api_version)

    def object(self, obj: JSON) -> JSON:
        """One object."""
        if self._form.kind == _TABLE:
            return self._table([obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")})
        return self._partial(obj) if self._form.kind else self._kind.present(obj)

    def list(self, listed: Listed) -> JSON:
        """One chunk of a list."""
        metadata: JSON = {"resourceVersion": str(listed.version)}
        if listed.continue_token:
            metadata["continue"] = listed.continue_token
        if listed.remaining is not None:
            metadata["remainingItemCount"] = listed.remaining
        if self._form.kind == _TABLE:
            return self._table(listed.items, metadata)
        if self._form.kind:
            items = [self._partial(obj) for obj in listed.items]
            return {"kind": self._form.kind, "apiVersion": self._version, "metadata": metadata, "items": items}
        bare = list(map(self._kind.bare, listed.items))
        kind, version = f"{self._kind.kind}List", self._kind.api_version
        return {"kind": kind, "apiVersion": version, "metadata": metadata, "items": bare}

    def event(self, type_: str, obj: JSON) -> JSON:
        """One event of a watch."""
        if type_ == ERROR:
            return {"type": type_, "object": obj}
        if type_ == BOOKMARK and self._form.kind == _TABLE:
            return {"type": type_, "object": self._table([], obj["metadata"])}
        return {"type": type_, "object": self.object(obj)}

    @property
    def _version(self) -> str:
        return f"{_META}/{self._form.version}"

    def _table(self, objects: Iterable[JSON], metadata: JSON) -> JSON:
        columns, rows = table_of(self._kind, objects, self._wall_time)
        table: JSON = {"kind": _TABLE, "apiVersion": self._version, "metadata": metadata}
        table["columnDefinitions"] = None if self._has_shown_columns else columns
        # In a watch the columns come with the first event.
        self._has_shown_columns = True
        return {**table, "rows": [{**row, "object": self._included(obj)} for row, obj in rows]}

    def _included(self, obj: JSON) -> JSON | None:
        if self._include == "Object":
            return self._kind.present(obj)
        return self._partial(obj) if self._include == "Metadata" else None

    def _partial(self, obj: JSON) -> JSON:
        version = self._version if self._form.version else f"{_META}/v1"
        return {"kind": _PARTIAL, "apiVersion": version, "metadata": obj["metadata"]}


class Events:
    """The latest events of watches as bytes, which are made once for all watches that send them.

    Source: staging/src/k8s.io/apiserver/pkg/storage/cacher/caching_object.go (kubernetes v1.34.4).
    """

    def __init__(self) -> None:
        self._latest: OrderedDict[tuple[object, ...], tuple[JSON, bytes]] = OrderedDict()
        self._bytes = 0

    def encoded(self, view: View, type_: str, obj: JSON) -> bytes:
        """One event, as bytes of the view's media type."""
        if (form := view.of_whole_objects) is None:
            return view.encoded_event(type_, obj)
        key = (*form, type_, id(obj))
        known = self._latest.get(key)
        if known is not None:
            return known[1]
        event = view.encoded_event(type_, obj)
        # While the object is kept, no other one has its id.
        self._latest[key] = obj, event
        self._bytes += len(event)
        while self._bytes > _MOST_BYTES or len(self._latest) > _MOST_EVENTS:
            _, (_, oldest) = self._latest.popitem(last=False)
            self._bytes -= len(oldest)
        return event
