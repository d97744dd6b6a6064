"""Lists: the objects of a selection as they are now, as they were at an earlier version, or in chunks of one version.

Source: staging/src/k8s.io/apiserver/pkg/storage (continue.go, errors.go, etcd3/errors.go),
staging/src/k8s.io/apimachinery/pkg/apis/meta/internalversion/validation (kubernetes v1.34.4).
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from ...objects.objects import JSON, Objects, TooOldError
from ..decoding.documents import json_document
from ..decoding.schema import go_name
from ..errors import FieldError, GroupName, StatusError
from .selectors import Selection

__all__ = ["ListOptions", "Listed", "list_objects", "parse_version"]

_CONTINUE_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)

_CONTINUE_FORM: Final = "meta.k8s.io/v1"
_NO_CONTINUE: Final = "invalid continue token: continue key is not valid"
_NO_BASE64: Final = re.compile(r"[^-_A-Za-z0-9]")
_LARGEST: Final = 2**64 - 1
_MOST_DIGITS: Final = 64


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What a list request asks for; versions are texts as the query has them."""

    resource_version: str = ""
    version_match: str = ""
    limit: int = 0
    continue_token: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """One chunk: the objects, the version that it shows, and how to get the rest; `remaining` where it is known."""

    items: list[JSON]
    version: int
    continue_token: str = ""
    remaining: int | None = None


def parse_version(text: str) -> int:
    """A resourceVersion as a number; 0 where none is given.

    Raises:
        StatusError: it is none.
    """
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise StatusError(500, "", str(FieldError.invalid("resourceVersion", text, why)))
    if len(text) > _MOST_DIGITS or int(text) > _LARGEST:
        why = f'strconv.ParseUint: parsing "{text}": value out of range'
        raise StatusError(500, "", str(FieldError.invalid("resourceVersion", text, why)))
    return int(text)


def list_objects(objects: Objects, kind: str, selection: Selection, options: ListOptions, *, selective: bool) -> Listed:
    """The objects that a request asks for.

    `selective` means that the request has selectors, so the number of remaining objects is unknown.

    Raises:
        StatusError: the options contradict each other, or the version is gone or not yet there.
    """
    _validate(options)
    after = ""
    version = objects.version
    try:
        asked = parse_version(options.resource_version)
    except StatusError as unreadable:
        raise StatusError.bad_request(f"invalid resource version: {unreadable}") from None
    if asked > version:
        details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}
        message = f"Timeout: Too large resource version: {asked}, current: {version}"
        raise StatusError(504, "Timeout", message, {**details, "retryAfterSeconds": 1})
    if options.continue_token:
        version, after = _read_token(options.continue_token)
        if version < 0:
            version = objects.version
    elif options.version_match == "Exact":
        version = asked
    try:
        there = _at_version(objects, kind, selection.namespace, after, version)
    except TooOldError:
        if not options.continue_token:
            raise StatusError.expired(f"too old resource version: {version}") from None
        error = StatusError.expired(_CONTINUE_EXPIRED)
        error.metadata = {"continue": _token(-1, after)}
        raise error from None
    found = filter(selection.matches, there)
    # From its cache, which "0" asks for, a server gives all at once.
    if options.limit <= 0 or options.resource_version == "0":
        return Listed(list(found), version)
    chunk = list(islice(found, options.limit))
    if next(found, None) is None:
        return Listed(chunk, version)
    last = chunk[-1]["metadata"]
    token = _token(version, f"{last.get('namespace', '')}/{last['name']}")
    return Listed(chunk, version, token, None if selective else len(there) - len(chunk))


def _at_version(objects: Objects, kind: str, namespace: str | None, after: str, version: int) -> list[JSON]:
    """What there was behind a path at a version: what there is, without what was written since."""
    there = objects.by_path(kind, namespace, after)
    if version == objects.version:
        return list(there.values())
    for written in reversed(objects.since(version, kind)):
        path = written.key.path
        if path <= after or namespace not in (None, written.key.namespace):
            continue
        if written.before is None:
            there.pop(path, None)
        else:
            there[path] = written.before
    # Those that are gone now stand at the end.
    return [there[path] for path in sorted(there)]


def _validate(options: ListOptions) -> None:
    match, path = options.version_match, "resourceVersionMatch"
    errors = []
    if match:
        if not options.resource_version:
            errors.append(FieldError.forbidden(path, f"{path} is forbidden unless resourceVersion is provided"))
        if options.continue_token:
            errors.append(FieldError.forbidden(path, f"{path} is forbidden when continue is provided"))
        if match not in ("Exact", "NotOlderThan"):
            errors.append(FieldError.not_supported(path, match, ("Exact", "NotOlderThan", "")))
        elif match == "Exact" and options.resource_version == "0":
            why = f'{path} "exact" is forbidden for resourceVersion "0"'
            errors.append(FieldError.forbidden(path, why))
    if errors:
        raise StatusError.invalid(GroupName("meta.k8s.io", "ListOptions"), "", errors)
    if options.continue_token and options.resource_version not in ("", "0"):
        raise StatusError.bad_request("specifying resource version is not allowed when using continue")


def _token(version: int, after: str) -> str:
    token = json.dumps({"v": _CONTINUE_FORM, "rv": version, "start": after}, separators=(",", ":"))
    return base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    """The version and the last object of a token.

    Raises:
        StatusError: it is none. A server with snapshots in its cache (1.34) has the same texts with status 500.

    Source: staging/src/k8s.io/apiserver/pkg/storage/continue.go, ``DecodeContinue``; interfaces.go,
    ``ValidateListOptions`` (kubernetes v1.34.4).
    """
    try:
        form, version, start = _token_fields(json_document(_base64_decoded(token)))
    except ValueError as error:
        raise StatusError.bad_request(f"{_NO_CONTINUE}: {error}") from None
    if form != _CONTINUE_FORM:
        raise StatusError.bad_request(f"{_NO_CONTINUE}: server does not recognize this encoded version {form}")
    if version == 0:
        raise StatusError.bad_request(f"{_NO_CONTINUE}: incorrect encoded start resourceVersion (version {form})")
    if not start:
        raise StatusError.bad_request(f"{_NO_CONTINUE}: encoded start key empty (version {form})")
    return version, start


def _base64_decoded(token: str) -> bytes:
    plain = token.translate({ord("\r"): None, ord("\n"): None})
    stray = _NO_BASE64.search(plain)
    if stray is not None or len(plain) % 4 == 1:
        raise ValueError(f"illegal base64 data at input byte {len(plain) if stray is None else stray.start()}")
    return base64.urlsafe_b64decode(plain + "=" * (-len(plain) % 4))


def _token_fields(document: Any) -> tuple[str, int, str]:
    if not isinstance(document, dict):
        raise ValueError(f"json: cannot unmarshal {go_name(document)} into Go value of type storage.continueToken")
    for name, type_, go_type in (("v", str, "string"), ("rv", int, "int64"), ("start", str, "string")):
        value = document.get(name)
        if value is not None and type(value) is not type_:
            field = f"continueToken.{name} of type {go_type}"
            raise ValueError(f"json: cannot unmarshal {go_name(value)} into Go struct field {field}")
    return document.get("v") or "", document.get("rv") or 0, document.get("start") or ""
