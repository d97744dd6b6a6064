"""What form an answer is asked for in, and JSON as it goes over the wire.

Source: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation (kubernetes v1.34.4).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ..errors import StatusError

__all__ = ["JSON_TYPE", "Form", "encoded", "form_asked"]

JSON_TYPE: Final = "application/json"
_ACCEPTED: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_ANY: Final = ("*/*", "application/*", JSON_TYPE)


@dataclass(frozen=True, slots=True)
class Form:
    """A form: `kind` is ``Table``, ``PartialObjectMetadata``, ``APIGroupDiscoveryList``; empty for the object."""

    kind: str = ""
    group: str = ""
    version: str = ""


def form_asked(accept: str, served: Iterable[Form]) -> Form:
    """The first form that a client accepts and that is served; the object itself always is.

    Raises:
        StatusError: the client accepts no JSON.
    """
    ranges = list(_media_ranges(accept or "*/*"))
    for media_type, parameters in ranges:
        form = Form(parameters.get("as", ""), parameters.get("g", ""), parameters.get("v", ""))
        if media_type in _ANY and (form == Form() or form in served):
            return form
    accepted = ", ".join(_ACCEPTED)
    if not any(media_type in (*_ANY, *_ACCEPTED) for media_type, _ in ranges):
        message = f"406: Not Acceptable\n\nAvailable representations: {accepted}"
        raise StatusError(406, "NotAcceptable", message, {})
    raise StatusError(406, "NotAcceptable", f"only the following media types are accepted: {accepted}")


def encoded(content: Any, *, pretty: bool = False) -> bytes:
    """JSON, indented where somebody is to read it, and ended by a line feed."""
    if pretty:
        return json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _media_ranges(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    for media_range in accept.split(","):
        media_type, *parameters = (part.strip() for part in media_range.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        yield media_type, {name: value for name, _, value in pairs}
