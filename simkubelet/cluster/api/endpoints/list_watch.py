"""Lists and watches: the objects of a selection, and what happens to them.

A list is of now, of an earlier version, or comes in chunks that all show the same version. A watch keeps a version and
no queue: it reads from the history of the objects what came after, when its client takes it. So a client that reads
slowly costs nothing, and one that falls behind the history must list again.

Source: staging/src/k8s.io/apiserver/pkg/storage (continue.go, errors.go, etcd3/errors.go; cacher/cacher.go,
cache_watcher.go, watch_cache.go), staging/src/k8s.io/apimachinery/pkg/apis/meta/internalversion/validation
(kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ...objects.objects import JSON, Key, Objects, TooOldError, Verb, Written
from ..decoding.documents import json_document
from ..decoding.schema import go_name
from ..errors import FieldError, GroupName, StatusError
from ..registry.kinds import Kind
from .selectors import Selection

__all__ = ["BOOKMARK", "ERROR", "ListOptions", "Listed", "WatchOptions", "list_objects", "parse_version", "watch"]

BOOKMARK: Final = "BOOKMARK"
ERROR: Final = "ERROR"

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
_BOOKMARK_PERIOD_S: Final = 60.0
_BOOKMARK_BEFORE_END_S: Final = 2.0
_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


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


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What a watch request asks for."""

    since: int = 0
    bookmarks: bool = False
    send_initial_events: bool | None = None


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
        items = _at_version(objects, kind, version)
    except TooOldError:
        if not options.continue_token:
            raise StatusError.expired(f"too old resource version: {version}") from None
        error = StatusError.expired(_CONTINUE_EXPIRED)
        error.metadata = {"continue": _token(-1, after)}
        raise error from None
    found = [
        obj for key, obj in sorted(items.items()) if f"{key.namespace}/{key.name}" > after and selection.matches(obj)
    ]
    # From its cache, which "0" asks for, a server gives all at once.
    if options.limit <= 0 or len(found) <= options.limit or options.resource_version == "0":
        return Listed(found, version)
    chunk = found[: options.limit]
    last = chunk[-1]["metadata"]
    token = _token(version, f"{last.get('namespace', '')}/{last['name']}")
    return Listed(chunk, version, token, None if selective else len(found) - len(chunk))


async def watch(
    objects: Objects, kind: Kind, selection: Selection, options: WatchOptions, lasts_s: float
) -> AsyncGenerator[tuple[str, JSON], None]:
    """The types and objects of the events of a watch, without end unless it is an error.

    The caller ends it after `lasts_s` seconds of the event loop; a bookmark comes shortly before.
    """
    since = options.since
    begins_with_state = options.send_initial_events
    if begins_with_state is None:
        begins_with_state = since == 0
    version = objects.version if begins_with_state or since == 0 else since
    if begins_with_state:
        for obj in objects.all_of(kind.key_kind):
            if selection.matches(obj):
                yield Verb.ADDED, obj
        if options.send_initial_events and options.bookmarks:
            yield BOOKMARK, _bookmark(kind, version, {_INITIAL_EVENTS_END: "true"})
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + lasts_s
    bookmark_at = _next_bookmark(loop.time(), ends_at)
    seen = -1
    while True:
        count = objects.change.count
        try:
            written = objects.since(version, kind.key_kind) if count != seen else []
        except TooOldError:
            oldest = objects.oldest(kind.key_kind)
            yield ERROR, StatusError.expired(f"too old resource version: {version} ({oldest})").status()
            return
        seen, version = count, max(version, objects.version)
        for event in _seen_through(selection, written):
            yield event
        if objects.change.count != seen:
            continue
        try:
            async with asyncio.timeout_at(bookmark_at):
                await objects.change.wait(seen)
        except TimeoutError:
            bookmark_at = _next_bookmark(loop.time(), ends_at)
            if options.bookmarks:
                yield BOOKMARK, _bookmark(kind, version)


def _at_version(objects: Objects, kind: str, version: int) -> dict[Key, JSON]:
    """What there was at a version: what there is, without what was written since."""
    items = {
        Key(kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj for obj in objects.all_of(kind)
    }
    for written in reversed(objects.since(version, kind)) if version != objects.version else ():
        if written.verb is Verb.ADDED:
            del items[written.key]
        elif written.before is not None:
            items[written.key] = written.before
    return items


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


def _next_bookmark(now: float, ends_at: float) -> float | None:
    """When to send a bookmark: each minute, and shortly before the end; None where no other fits in.

    Source: staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go, ``nextBookmarkTime`` (kubernetes v1.34.4).
    """
    at = min(now + _BOOKMARK_PERIOD_S, ends_at - _BOOKMARK_BEFORE_END_S)
    return at if at >= now else None


def _seen_through(selection: Selection, written: list[Written]) -> Iterator[tuple[str, JSON]]:
    """Writes as a selection shows them: an object that leaves it is deleted, with its last state within."""
    for one in written:
        was = one.before is not None and selection.matches(one.before)
        is_ = one.verb is not Verb.DELETED and selection.matches(one.object)
        if is_:
            yield Verb.MODIFIED if was else Verb.ADDED, one.object
        elif was and one.before is not None:
            metadata = {**one.before["metadata"], "resourceVersion": str(one.version)}
            yield Verb.DELETED, {**one.before, "metadata": metadata}


def _bookmark(kind: Kind, version: int, annotations: dict[str, str] | None = None) -> JSON:
    metadata: JSON = {"resourceVersion": str(version)}
    if annotations:
        metadata["annotations"] = annotations
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
