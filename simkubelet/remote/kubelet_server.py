"""The HTTPS APIs of the kubelets of this process, which the API server asks for the output of containers.

Each node has a port of its own, so a request is about one node before any pod is looked up: that node's name is what
its sender needs a right for. A client shows by a certificate of the cluster's authority who it is, and the API server
decides what it may do. Nothing else of a kubelet's API is there; what talks to a container is refused in plain words.

Source: kubelet/server/server.go, ``InstallAuthFilter``, ``getContainerLogs``; kubelet/server/auth.go,
``GetRequestAttributes``; pkg/kubelet/kubelet_pods.go, ``GetKubeletContainerLogs`` (kubernetes v1.34.4); apiserver
pkg/authentication/request/x509/x509.go, ``CommonNameUserConversion`` (v0.34.4). A certificate of another authority is
refused by TLS here, where a kubelet answers 401.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler

from .._internal.http_listener import Connections
from ..cluster.api.endpoints.certificates import Certificates
from ..cluster.api.endpoints.request import log_options, refuse_stream
from ..cluster.api.endpoints.streams import Lasting
from ..cluster.api.errors import StatusError
from ..cluster.node_logs import NodeLogs
from ..golang.text import quoted
from ..kubelet.kubelet import Kubelet
from ..model.errors import InputError
from .client import JSON, ApiClient, ApiError
from .cluster import RemoteCluster

__all__ = ["kubelet_ports", "serving_kubelets"]

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_STREAMS: Final = {"exec": "exec", "run": "exec", "attach": "attach", "portForward": "portforward"}
"""First part of a path -> the subresource of a pod that it serves."""
_BACKLOG: Final = 128
_LARGEST_BODY: Final = 0
"""No request has one."""
_SHUTDOWN_S: Final = 2.0
_LOG: Final = logging.getLogger(__name__)


@contextmanager
def kubelet_ports(address: str, nodes: Iterable[str]) -> Iterator[Mapping[str, socket.socket]]:
    """Take a free port for each node, where nothing answers yet; node -> its socket.

    Raises:
        InputError: it is no address of this machine.
    """
    family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
    with ExitStack() as stack:
        taken: dict[str, socket.socket] = {}
        for node in nodes:
            taken[node] = stack.enter_context(socket.socket(family))
            try:
                taken[node].bind((address, 0))
            except OSError as error:
                why = f"kubelets cannot listen there: {error.strerror}; give an address of this machine"
                raise InputError(f"--address {address}: {why}") from None
        yield taken


@asynccontextmanager
async def serving_kubelets(
    ports: Mapping[str, socket.socket],
    authority: str,
    client: ApiClient,
    cluster: RemoteCluster,
    kubelets: Mapping[str, Kubelet],
    complain: Callable[[str], None],
) -> AsyncIterator[None]:
    """Serve the APIs of kubelets until the end of the block, which ends what still lasts.

    Args:
        ports: of `kubelet_ports`.
        authority: of the certificates of clients; PEM.
        client: of the API server, which decides what clients may do.
        cluster: the kubelets'.
        kubelets: node -> its kubelet; a node that is missing, or whose kubelet is stopped, does not answer.
        complain: called with why the API server decides nothing.
    """
    context = Certificates.make("simkubelet", next(iter(ports.values())).getsockname()[0], "localhost").server_context()
    context.load_verify_locations(cadata=authority)
    # Who shows none gets an answer that says so.
    context.verify_mode = ssl.CERT_OPTIONAL
    apis = _KubeletApis(ports, client, cluster, kubelets, complain)
    runner = web.AppRunner(
        apis.application(),
        access_log=None,
        logger=_LOG,
        handler_cancellation=True,
        shutdown_timeout=_SHUTDOWN_S,
        auto_decompress=False,
    )
    await runner.setup()
    apis.connections = connections = Connections(runner, _LARGEST_BODY)
    servers = list[asyncio.Server]()
    try:
        for port in ports.values():
            servers.append(await connections.serve(context, sock=port, backlog=_BACKLOG))
        yield
    finally:
        for server in servers:
            server.close()
        apis.lasting.end()
        await runner.cleanup()


@dataclass(frozen=True, slots=True)
class _User:
    """Who a client is, by its certificate."""

    name: str
    groups: tuple[str, ...]


class _KubeletApis:
    """Answers requests to all nodes."""

    def __init__(
        self,
        ports: Mapping[str, socket.socket],
        client: ApiClient,
        cluster: RemoteCluster,
        kubelets: Mapping[str, Kubelet],
        complain: Callable[[str], None],
    ) -> None:
        self.lasting = Lasting()
        self.connections: Connections | None = None
        self._nodes = {port.getsockname()[1]: node for node, port in ports.items()}
        self._client = client
        self._cluster = cluster
        self._kubelets = kubelets
        self._complain = complain
        self._logs = NodeLogs(kubelets, lambda: datetime.now(UTC))

    def application(self) -> web.Application:
        """What is served where."""
        app = web.Application(middlewares=[self._admit])
        app.router.add_get("/healthz", _healthz)
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._container_logs)
        for name in _STREAMS:
            app.router.add_route("*", f"/{name}/{{rest:.*}}", _refuse_stream)
        return app

    @web.middleware
    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self.connections is not None:
            self.connections.begun(request)
        node = self._node_of(request)
        kubelet = self._kubelets.get(node)
        if kubelet is None or not kubelet.is_running:
            # As good as a port where nobody listens.
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=503)
        refusal = await self._refusal(request, node)
        return await handler(request) if refusal is None else refusal

    def _node_of(self, request: web.Request) -> str:
        return self._nodes[request.get_extra_info("sockname")[1]]

    async def _refusal(self, request: web.Request, node: str) -> web.Response | None:
        """Why a client may not do what it asks for; None where it may."""
        user = _user(request.get_extra_info("peercert"))
        if user is None:
            return web.Response(text="Unauthorized", status=401)
        verb = _VERBS.get(request.method, "")
        about = f"user={user.name}, verb={verb}, resource=nodes"
        try:
            is_allowed = await self._is_allowed(user, verb, node)
        except ApiError as error:
            self._complain(f"{node}: the API server does not say what {user.name} may do at kubelets: {error}")
            return web.Response(text=f"Authorization error ({about}, subresource=proxy)", status=500)
        return None if is_allowed else web.Response(text=f"Forbidden ({about}, subresource(s)=[proxy])\n", status=403)

    async def _is_allowed(self, user: _User, verb: str, node: str) -> bool:
        """Ask the API server; each time, while a kubelet keeps an answer for minutes.

        Raises:
            ApiError: it does not say.
        """
        attributes = {"verb": verb, "version": "v1", "resource": "nodes", "subresource": "proxy", "name": node}
        review: JSON = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user.name, "groups": list(user.groups), "resourceAttributes": attributes},
        }
        answer = await self._client.call("POST", _REVIEWS, review)
        return bool((answer.get("status") or {}).get("allowed"))

    async def _container_logs(self, request: web.Request) -> web.StreamResponse:
        namespace, name, container = (request.match_info[part] for part in ("namespace", "pod", "container"))
        try:
            options = log_options(_log_query(request), name)
        except StatusError as error:
            said = "Invalid request." if error.code == 422 else "Unable to decode query."
            return web.Response(text=f'{{"message": {quoted(said)}}}', status=error.code)
        pod = self._pod(self._node_of(request), namespace, name)
        if pod is None:
            return web.Response(text=f"pod {quoted(name)} does not exist", status=404)
        if container not in _containers(pod):
            return web.Response(text=f"container {quoted(container)} not found in pod {quoted(name)}", status=404)
        try:
            return await self.lasting.log(request, self._logs.read(pod, container, options), {})
        except StatusError as error:
            return web.Response(text=error.message, status=error.code)

    def _pod(self, node: str, namespace: str, name: str) -> JSON | None:
        for pod in self._cluster.pods_on(node):
            if (pod.namespace, pod.name) == (namespace, name):
                return self._cluster.as_published(pod)
        return None


def _user(certificate: Mapping[str, Any] | None) -> _User | None:
    """Who has a certificate, which is verified; None where there is none, or it names nobody."""
    subject = [pair for names in (certificate or {}).get("subject", ()) for pair in names]
    name = next((str(value) for key, value in reversed(subject) if key == "commonName"), "")
    groups = tuple(str(value) for key, value in subject if key == "organizationName")
    return _User(name, (*groups, "system:authenticated")) if name else None


def _log_query(request: web.Request) -> Mapping[str, str]:
    """The options of a request; ``tail`` is the former name of ``tailLines``, and may be ``all``."""
    query = dict(request.query)
    if tail := query.get("tail"):
        query["tailLines"] = "" if tail == "all" else tail
    return query


def _containers(pod: JSON) -> Iterator[str]:
    kinds = ("containers", "initContainers", "ephemeralContainers")
    return (str(one["name"]) for kind in kinds for one in pod["spec"].get(kind) or ())


async def _healthz(request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def _refuse_stream(request: web.Request) -> web.Response:
    """A Status, as clients show its message; they take plain text for YAML."""
    try:
        refuse_stream(_STREAMS[request.path.split("/")[1]])
    except StatusError as error:
        return web.json_response(error.status(), status=error.code)
    raise web.HTTPNotFound
