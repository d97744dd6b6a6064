"""GET: an object, a list, a watch, a container's output.

Source: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/get.go, watch.go; pkg/registry/core/pod/strategy.go,
``LogLocation`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from typing import Final, Protocol

from aiohttp import web

from ...objects.objects import JSON
from ..errors import StatusError
from ..registry.registry import Registry
from ..registry.served import Served
from .lists import list_objects, parse_version
from .request import LogOptions, Target, as_bool, integer, list_options, log_options, selection, watch_options
from .streams import Lasting
from .views import Events, View
from .warning_headers import add_warnings
from .watches import Watches

__all__ = ["PodLogs", "Reading", "is_pretty"]

_WRITTEN_AT_ONCE: Final = 4
_MIN_WATCH_S: Final = 1800
_PIECE_BYTES: Final = 32 * 1024


class PodLogs(Protocol):
    """Where a cluster's container output is kept."""

    def read(self, pod: JSON, container: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        """The output of one container of a pod that a node has, in pieces of any size; the first comes at once.

        Raises:
            StatusError: in place of the first piece: the kubelet's refusal.
        """


class Reading:
    """Answers GET requests; `end_watches` ends those that last."""

    def __init__(self, registry: Registry, served: Served, logs: PodLogs) -> None:
        self._registry = registry
        self._served = served
        self._logs = logs
        self._watches = Watches(registry.objects)
        self._events = Events()
        self._lasting = Lasting()

    def end_watches(self) -> None:
        """End all watches and followed logs, as at their timeout."""
        self._lasting.end()

    async def answer(self, request: web.Request, target: Target) -> web.StreamResponse:
        """The answer to a GET request.

        Raises:
            StatusError: it is refused.
        """
        if target.subresource == "log":
            return await self._log(request, target)
        if not target.name or as_bool(request.query, "watch"):
            if as_bool(request.query, "watch"):
                return await self._watch(request, target)
            return await self._list(request, target)
        view = self._view(request, target, of_list=False)
        parse_version(request.query.get("resourceVersion", ""))
        obj = self._registry.get(target.kind, target.namespace, target.name)
        return self._answer(request, target, view, view.object(obj))

    def _view(self, request: web.Request, target: Target, *, of_list: bool) -> View:
        accept, include = request.headers.get("Accept", ""), request.query.get("includeObject", "")
        return View(
            target.kind, accept, include, self._registry.objects.wall_time, self._served.release, of_list=of_list
        )

    async def _list(self, request: web.Request, target: Target) -> web.Response:
        query = request.query
        view = self._view(request, target, of_list=True)
        selective = bool(query.get("labelSelector") or query.get("fieldSelector"))
        listed = list_objects(
            self._registry.objects,
            target.kind.key_kind,
            await selection(target, query),
            list_options(query),
            selective=selective,
        )
        return self._answer(request, target, view, view.list(listed))

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        view = self._view(request, target, of_list=False)
        options = watch_options(request.query)
        selected = await selection(target, request.query)
        # Spread, so that not all clients come back at once.
        lasts_s = integer(request.query, "timeoutSeconds") or _MIN_WATCH_S * random.uniform(1, 2)  # noqa: S311
        events = self._watches.watch(target.kind, selected, options, lasts_s)
        response = web.StreamResponse(headers={"Content-Type": view.stream_type, "Cache-Control": "no-cache, private"})
        add_warnings(response, self._served.deprecation(target.kind))
        await response.prepare(request)
        try:
            async with self._lasting.limited(lasts_s):
                count = 0
                async for type_, obj in events:
                    event = self._events.encoded(view, type_, obj)
                    # In pieces, as each connection has a copy of what its client has yet to take.
                    for start in range(0, len(event), _PIECE_BYTES):
                        await response.write(event[start : start + _PIECE_BYTES])
                    count += 1
                    if count % _WRITTEN_AT_ONCE == 0:
                        # The end of a connection is noticed in between; a TLS connection does not report it otherwise.
                        await asyncio.sleep(0)
        except ConnectionError:
            # The client has gone.
            return response
        finally:
            await events.aclose()
        await response.write_eof()
        return response

    async def _log(self, request: web.Request, target: Target) -> web.StreamResponse:
        query = request.query
        pod = self._registry.get(target.kind, target.namespace, target.name)
        options = log_options(query, target.name)
        container = _log_container(pod, query.get("container", ""))
        if not pod.get("spec", {}).get("nodeName"):
            return web.Response(status=204)
        pieces = self._logs.read(pod, container, options)
        return await self._lasting.log(request, pieces, {"Cache-Control": "no-cache, private"})

    def _answer(self, request: web.Request, target: Target, view: View, content: JSON) -> web.Response:
        body = view.encoded(content, pretty=is_pretty(request))
        response = web.Response(body=body, content_type=view.media_type)
        add_warnings(response, self._served.deprecation(target.kind))
        return response


def is_pretty(request: web.Request) -> bool:
    """Whether an answer is for a person to read."""
    if "pretty" in request.query:
        return as_bool(request.query, "pretty")
    return request.headers.get("User-Agent", "").startswith(("curl", "Wget", "Mozilla/5.0"))


def _log_container(pod: JSON, asked: str) -> str:
    """The container whose output is meant.

    Raises:
        StatusError: the pod has no such container, or several and none is named.
    """
    name = pod["metadata"]["name"]
    spec = pod.get("spec", {})
    containers = [container["name"] for container in spec.get("containers", ())]
    init = [container["name"] for container in spec.get("initContainers", ())]
    if not asked:
        if len(containers) == 1:
            return str(containers[0])
        text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(containers)}]"
        if init:
            text += f" or one of the init containers: [{' '.join(init)}]"
        raise StatusError.bad_request(text)
    if asked not in (*containers, *init):
        raise StatusError.bad_request(f"container {asked} is not valid for pod {name}")
    return asked
