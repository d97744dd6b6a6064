"""From a request's path to who answers it; refusals become Status objects, warnings become headers.

Source: staging/src/k8s.io/apiserver/pkg/server, pkg/endpoints/handlers/responsewriters (kubernetes v1.34.4).
"""

from __future__ import annotations

import hmac
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from ...._internal.doors import Door
from ....golang.text import quoted
from ...objects.objects import JSON
from ..errors import GroupName, StatusError
from ..registry.registry import Registry
from ..registry.served import Served
from .discovery import discovery_document, is_below_a_group
from .lists import Listed
from .openapi import openapi_v2, openapi_v2_protobuf, openapi_v3, openapi_v3_index
from .reading import PodLogs, Reading, is_pretty
from .request import Target, as_bool, refuse_stream, target_of
from .views import JSON_TYPE, View, encoded, encoded_status
from .warning_headers import add_warnings
from .writing import Answer, Writing

__all__ = ["LARGEST_HEAD", "Handlers"]

LARGEST_HEAD: Final = 1024 * 1024 + 4096
"""Bytes of a request's first line and headers; Go's ``DefaultMaxHeaderBytes`` and what its server adds."""

_REQUEST: Final = Door("request to the API server", StatusError, web.HTTPException, ConnectionError)
_PANIC: Final = "This request caused apiserver to panic. Look in the logs for details.\n"
"""Source: apiserver/pkg/server/filters/wrap.go, ``WithPanicRecovery`` (v0.34.4)."""
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_OPEN: Final = (*_HEALTH, "/version")
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_OPENAPI: Final = "application/com.github.proto-openapi.spec.v2"
_UNAUTHORIZED: Final = 401
_NO_PATH: Final = "404 page not found\n"


class Handlers:
    """Answers all requests of one server.

    Args:
        served: what of the registry's kinds it serves.
        token: a client that sends it may do everything; None if no token is needed.
        version: of Kubernetes, as ``v1.34.4``.
    """

    def __init__(self, registry: Registry, served: Served, logs: PodLogs, token: str | None, version: str) -> None:
        self.reading = Reading(registry, served, logs)
        self._writing = Writing(registry, served)
        self._served = served
        self._registry = registry
        self._token = token
        self._version = version

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The answer to any request."""
        if _head_bytes(request) > LARGEST_HEAD:
            response = web.Response(text="431 Request Header Fields Too Large", status=431)
            response.force_close()
            return response
        try:
            self._authorize(request)
            with _REQUEST(f"{request.method} {request.path}"):
                return await self._answer(request)
            return web.Response(text=_PANIC, status=500)
        except StatusError as error:
            accept = request.headers.get("Accept", "")
            body, media_type = encoded_status(accept, error.status(), pretty=is_pretty(request))
            response = web.Response(body=body, status=error.code, content_type=media_type)
            target = target_of(request.path.rstrip("/"), self._served)
            if target is not None and error.code != _UNAUTHORIZED:
                add_warnings(response, self._served.deprecation(target.kind))
            return response

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path.rstrip("/")
        if (healthy := _health(path, request)) is not None:
            return healthy
        target = target_of(path, self._served)
        if target is None:
            _refuse_streams(path)
            return self._about_the_server(request, path)
        verb = _verb(request, target)
        subresource = next((one for one in target.kind.subresources if one.name == target.subresource), None)
        if verb not in (target.kind.verbs if subresource is None else subresource.verbs):
            raise StatusError.method_not_allowed()
        if request.method == "GET":
            return await self.reading.answer(request, target)
        return self._written(request, target, await self._writing.answer(request, target))

    def _written(self, request: web.Request, target: Target, answer: Answer) -> web.Response:
        content, accept, pretty = answer.content, request.headers.get("Accept", ""), is_pretty(request)
        if answer.is_status and not isinstance(content, Listed):
            body, media_type = encoded_status(accept, content, pretty=pretty)
        else:
            include, of_list = request.query.get("includeObject", ""), isinstance(content, Listed)
            view = View(
                target.kind, accept, include, self._registry.objects.wall_time, self._served.release, of_list=of_list
            )
            shown = view.list(content) if isinstance(content, Listed) else view.object(content)
            body, media_type = view.encoded(shown, pretty=pretty), view.media_type
        response = web.Response(body=body, status=answer.code, content_type=media_type)
        add_warnings(response, [*self._served.deprecation(target.kind), *answer.warnings])
        return response

    def _about_the_server(self, request: web.Request, path: str) -> web.Response:
        """Discovery, schemas, the version and the list of paths."""
        found = self._document(request, path)
        if path == "/openapi/v2" and _OPENAPI in request.headers.get("Accept", ""):
            return web.Response(body=openapi_v2_protobuf(self._version), content_type=f"{_OPENAPI}.v1.0+protobuf")
        if found is None:
            if is_below_a_group(self._served, path.strip("/")):
                raise StatusError.no_such_path()
            return web.Response(text=_NO_PATH, status=404)
        if request.method != "GET":
            raise StatusError.method_not_allowed()
        document, media_type = found
        return web.Response(body=encoded(document, pretty=is_pretty(request)), headers={"Content-Type": media_type})

    def _document(self, request: web.Request, path: str) -> tuple[JSON, str] | None:
        """A document and its media type; None where there is none."""
        found = discovery_document(self._served, path.strip("/"), request.headers.get("Accept", ""), f"{request.host}")
        if found is not None:
            return found
        document: JSON | None = None
        if path == "/version":
            document = _version_document(self._version)
        elif path == "/openapi/v2":
            document = openapi_v2(self._served, self._version)
        elif path == "/openapi/v3":
            document = openapi_v3_index(self._served)
        elif path.startswith("/openapi/v3/"):
            document = openapi_v3(self._served, path.removeprefix("/openapi/v3/"), self._version)
        elif path == "":
            groups = list(openapi_v3_index(self._served)["paths"])
            document = {
                "paths": sorted({"/api", "/apis", "/openapi/v2", "/openapi/v3", *_OPEN, *(f"/{g}" for g in groups)})
            }
        return None if document is None else (document, JSON_TYPE)

    def _authorize(self, request: web.Request) -> None:
        if self._token is None:
            _check_local(request)
            return
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme:
            given = token.strip().encode(errors="surrogateescape")
            if scheme.lower() != "bearer" or not hmac.compare_digest(given, self._token.encode()):
                raise StatusError.unauthorized()
        elif request.path.rstrip("/") not in _OPEN:
            raise _forbidden_to_anonymous(request, target_of(request.path, self._served))


def _refuse_streams(path: str) -> None:
    match path.strip("/").split("/"):
        case ["api", "v1", "namespaces", _, "pods", _, subresource, *_]:
            refuse_stream(subresource)


def _head_bytes(request: web.Request) -> int:
    headers = sum(len(name) + len(value) + len(": \r\n") for name, value in request.raw_headers)
    return len(request.method) + len(request.path_qs) + len("  HTTP/1.1\r\n") + headers


def _check_local(request: web.Request) -> None:
    """Refuse requests that a foreign web page makes a browser of this machine send.

    A page cannot set these headers; its own name in ``Host`` means that the name leads to this machine.
    """
    for header in ("Host", "Origin"):
        given = request.headers.get(header)
        if given is not None and not _is_local(given if header == "Origin" else f"//{given}"):
            asked = f"{header} {quoted(given)} is not this machine"
            why = f"forbidden: {asked}; without TLS only requests to 127.0.0.1 or localhost are answered"
            raise StatusError(403, "Forbidden", why, {})


def _is_local(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _health(path: str, request: web.Request) -> web.Response | None:
    """Return the answer to a health check, or to one check by its name; None for another path."""
    check = path.partition("/ping")[0]
    if check not in _HEALTH or path not in (check, f"{check}/ping"):
        return None
    if path == check and "verbose" in request.query:
        return web.Response(text=f"[+]ping ok\n{check.strip('/')} check passed\n")
    return web.Response(text="ok")


def _verb(request: web.Request, target: Target) -> str:
    match request.method:
        case "GET":
            if as_bool(request.query, "watch"):
                return "watch"
            return "get" if target.name else "list"
        case "DELETE":
            if target.kind.namespaced and not target.namespace:
                return ""
            return "delete" if target.name else "deletecollection"
        case method:
            below_object = bool(target.name)
            fits = (method == "POST") != below_object or bool(target.subresource)
            needs_namespace = target.kind.namespaced and not target.namespace
            return _VERBS.get(method, "") if fits and not needs_namespace else ""


def _forbidden_to_anonymous(request: web.Request, target: Target | None) -> StatusError:
    user = quoted("system:anonymous")
    if target is None:
        method = request.method.lower()
        message = f"forbidden: User {user} cannot {method} path {quoted(request.path)}"
        return StatusError(403, "Forbidden", message, {})
    resource = f"{target.kind.plural}/{target.subresource}" if target.subresource else target.kind.plural
    where = f"in the namespace {quoted(target.namespace)}" if target.namespace else "at the cluster scope"
    verb = _verb(request, target) or request.method.lower()
    why = f"User {user} cannot {verb} resource {quoted(resource)} in API group {quoted(target.kind.group)} {where}"
    return StatusError.forbidden(GroupName(target.kind.group, target.kind.plural), target.name, why)


def _version_document(version: str) -> JSON:
    major, minor, _ = version.removeprefix("v").split(".", 2)
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": version,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "gc",
        "platform": "linux/amd64",
    }
