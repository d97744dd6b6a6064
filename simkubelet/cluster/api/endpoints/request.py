"""What a request is about, read from its path and query.

Source: staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go, ``NewRequestInfo`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from aiohttp import web

from ....apis.integers import parse_int
from ..decoding.schema import check_date
from ..errors import FieldError, GroupName, StatusError
from ..registry.kinds import Kind
from ..registry.registry import DeleteOptions
from ..registry.served import Served
from .lists import ListOptions, parse_version
from .selectors import Selection
from .watches import WatchOptions

__all__ = [
    "OCTETS",
    "LogOptions",
    "Target",
    "as_bool",
    "beside_loop",
    "delete_options",
    "dry_run",
    "integer",
    "list_options",
    "log_options",
    "media_type",
    "refuse_stream",
    "selection",
    "target_of",
    "watch_options",
]

_T = TypeVar("_T")

OCTETS: Final = "application/octet-stream"
_READ_AT_ONCE_BYTES: Final = 16 * 1024
_NOT_SIMULATED: Final = {
    "attach": "attach is not simulated; 'kubectl logs' shows what a container writes",
    "exec": "exec and cp are not simulated; 'kubectl logs' shows what a container writes",
    "portforward": "port-forward is not simulated, pods have no network",
    "proxy": "a proxy to a pod is not simulated, pods have no network",
}
"""Subresource of a pod -> what a client is told about it."""
_OF_NAMESPACES: Final = ("status", "finalize")
_BOOLS: Final = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
_FINALIZERS: Final = {"Orphan": "orphan", "Foreground": "foregroundDeletion", "Background": None}


@dataclass(frozen=True, slots=True)
class Target:
    """The objects or the object that a path names; empty texts for what it does not name."""

    kind: Kind
    namespace: str
    name: str
    subresource: str


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which part of a container's output is asked for.

    Attributes:
        tail_lines: how many of the last lines; all where it is None.
        since_time: lines from this RFC 3339 date on.
        limit_bytes: at most so many bytes.
        timestamps: each line begins with its date.
        previous: of the container's run before this one.
        follow: what comes later too, until the container ends.
    """

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_time: str | None = None
    since_seconds: int | None = None
    limit_bytes: int | None = None


def target_of(path: str, served: Served) -> Target | None:
    """What a path is about; None where nothing is served there."""
    parts = path.strip("/").split("/")
    if parts[:2] == ["api", "v1"] and len(parts) > 2:
        group, version, parts = "", "v1", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if parts[0] == "namespaces" and not group and (len(parts) < 3 or parts[2] in _OF_NAMESPACES):
        pass
    elif parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    kind = served.kind_at(group, version, parts[0])
    if kind is None or len(parts) > 3 or (namespace and not kind.namespaced):
        return None
    name, subresource = [*parts[1:], "", ""][:2]
    if name and kind.namespaced and not namespace:
        return None
    if subresource and all(subresource != other.name for other in kind.subresources):
        return None
    return Target(kind, namespace, name, subresource)


def as_bool(query: Mapping[str, str], name: str) -> bool:
    """A flag of a query; one that is there without a value is true."""
    if name not in query:
        return False
    return _BOOLS.get(query[name].lower(), True)


async def beside_loop(size: int, work: Callable[[], _T]) -> _T:
    """Do what takes the longer the more bytes a client sent; much of it beside the event loop, which serves others."""
    return work() if size <= _READ_AT_ONCE_BYTES else await asyncio.to_thread(work)


async def selection(target: Target, query: Mapping[str, str]) -> Selection:
    """The objects that a list or watch is about."""
    size = len(query.get("labelSelector", "")) + len(query.get("fieldSelector", ""))
    return await beside_loop(size, lambda: _selection(target, query))


def _selection(target: Target, query: Mapping[str, str]) -> Selection:
    namespace = target.namespace or None
    fields = query.get("fieldSelector", "")
    if target.name:
        fields = f"metadata.name={target.name}"
    return Selection(target.kind, namespace, query.get("labelSelector", ""), fields)


def list_options(query: Mapping[str, str]) -> ListOptions:
    """What a list shows."""
    return ListOptions(
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
        integer(query, "limit") or 0,
        query.get("continue", ""),
    )


def watch_options(query: Mapping[str, str]) -> WatchOptions:
    """How a watch begins.

    Raises:
        StatusError: the options contradict each other, or the version is none.
    """
    initial = as_bool(query, "sendInitialEvents") if "sendInitialEvents" in query else None
    match = query.get("resourceVersionMatch", "")
    path = "resourceVersionMatch"
    errors = []
    if initial is None and match:
        errors.append(FieldError.forbidden(path, f"{path} is forbidden for watch unless sendInitialEvents is provided"))
    if initial is not None and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(FieldError.forbidden(path, why))
    if errors:
        raise StatusError.invalid(GroupName("meta.k8s.io", "ListOptions"), "", errors)
    since = parse_version(query.get("resourceVersion", ""))
    return WatchOptions(since, as_bool(query, "allowWatchBookmarks"), initial)


def dry_run(values: Sequence[str], options: str) -> bool:
    """Whether a write is only tried.

    Raises:
        StatusError: there is no such stage.
    """
    for value in values:
        if value != "All":
            why = FieldError.not_supported("dryRun", values, ("All",))
            raise StatusError.invalid(GroupName("meta.k8s.io", options), "", [why])
    return bool(values)


def delete_options(body: Mapping[str, object], query: Mapping[str, str]) -> DeleteOptions:
    """How to delete, by the body's DeleteOptions or else by the query."""
    given: Mapping[str, object] = body or query
    grace = body.get("gracePeriodSeconds") if body else integer(query, "gracePeriodSeconds")
    preconditions = body.get("preconditions") or {}
    policy = given.get("propagationPolicy") or ""
    if policy and policy not in _FINALIZERS:
        why = FieldError.not_supported("propagationPolicy", policy, ("Foreground", "Background", "Orphan", "nil"))
        raise StatusError.invalid(GroupName("meta.k8s.io", "DeleteOptions"), "", [why])
    if policy and given.get("orphanDependents") is not None:
        why = FieldError.invalid(
            "propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set"
        )
        raise StatusError.invalid(GroupName("meta.k8s.io", "DeleteOptions"), "", [why])
    finalizer = _FINALIZERS.get(str(policy))
    if given.get("orphanDependents") in (True, "true"):
        finalizer = "orphan"
    uid = preconditions.get("uid") if isinstance(preconditions, dict) else None
    version = preconditions.get("resourceVersion") if isinstance(preconditions, dict) else None
    return DeleteOptions(grace if isinstance(grace, int) else None, uid, version, finalizer)


def log_options(query: Mapping[str, str], pod: str) -> LogOptions:
    """Which part of a pod's log is asked for.

    Raises:
        StatusError: the options contradict each other, or are out of range.

    Source: pkg/apis/core/validation/validation.go, ``ValidatePodLogOptions`` (kubernetes v1.34.4).
    """
    tail, limit, seconds = (integer(query, name) for name in ("tailLines", "limitBytes", "sinceSeconds"))
    time, errors = query.get("sinceTime"), []
    try:
        check_date(time or "0001-01-01T00:00:00Z")
    except ValueError as error:
        raise StatusError.bad_request(str(error)) from None
    if tail is not None and tail < 0:
        errors.append(FieldError.invalid("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        errors.append(FieldError.invalid("limitBytes", limit, "must be greater than 0"))
    if seconds is not None and time:
        errors.append(FieldError.forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif seconds is not None and seconds < 1:
        errors.append(FieldError.invalid("sinceSeconds", seconds, "must be greater than 0"))
    if errors:
        raise StatusError.invalid(GroupName("", "PodLogOptions"), pod, errors)
    return LogOptions(
        follow=as_bool(query, "follow"),
        previous=as_bool(query, "previous"),
        timestamps=as_bool(query, "timestamps"),
        tail_lines=tail,
        since_time=time,
        since_seconds=seconds,
        limit_bytes=limit,
    )


def media_type(request: web.Request) -> str:
    """The type of a body without its parameters; that of any bytes where none is given, or what is given is none.

    The parameters are not read: aiohttp's reader takes minutes for a header full of them.
    """
    given = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return given if given.count("/") == 1 else OCTETS


def refuse_stream(subresource: str) -> None:
    """Refuse a subresource of a pod by which a client would talk to a container, in words that kubectl shows.

    Raises:
        StatusError: it is such a one.
    """
    if subresource in _NOT_SIMULATED:
        raise StatusError(405, "MethodNotAllowed", f"simkubelet: {_NOT_SIMULATED[subresource]}", {})


def integer(query: Mapping[str, str], name: str) -> int | None:
    """A number of a query; None where it is not given."""
    text = query.get(name, "")
    if not text:
        return None
    try:
        return parse_int(text)
    except ValueError as error:
        raise StatusError.bad_request(str(error)) from None
