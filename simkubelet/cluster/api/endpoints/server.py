"""The API server as a whole: its listener, the tokens of its clients, and its certificate.

The certificate authority is created for one cluster and is not stored.
"""

from __future__ import annotations

import base64
import logging
import secrets
from asyncio.sslproto import SSLProtocol
from collections.abc import Mapping
from typing import Final

from ...._internal.http_listener import HOST, HttpListener
from ....model.version import DEFAULT, Version, version
from ...objects.objects import JSON, Objects
from ..registry.registry import Registry
from ..registry.served import Served
from ..registry.strategy import Strategy
from .certificates import Certificates
from .handlers import LARGEST_HEAD, Handlers
from .reading import PodLogs

__all__ = ["ApiServer"]

_LARGEST_BODY: Final = 3 * 1024 * 1024
_READ_LINE: Final = 4 * LARGEST_HEAD
_SHUTDOWN_S: Final = 2.0
_TLS_RECORD: Final = 16 * 1024
"""The most that a record of TLS contains, in bytes."""
_LOG: Final = logging.getLogger(__name__)


class ApiServer:
    """Serves the objects of a cluster over HTTP, on loopback only.

    Args:
        strategies: the rules of each kind, by the text of `Kind.resource`.
        logs: where the output of containers is.
        release: of Kubernetes, as which it serves; the default version where it is None.
        runtime_config: the versions of groups that are on or off, see `runtime_config`.
        port: where to listen; a free one where it is 0.
        plain: without TLS and without asking for a token; it answers only requests to a name of this machine.
        name: of the cluster in its kubeconfig.

    Raises:
        InputError: the release does not have a version that the configuration names.
    """

    def __init__(
        self,
        objects: Objects,
        strategies: Mapping[str, Strategy],
        *,
        logs: PodLogs,
        release: Version | None = None,
        runtime_config: Mapping[str, bool] | None = None,
        port: int = 0,
        plain: bool = False,
        name: str = "simkubelet",
    ) -> None:
        release = release or version(DEFAULT)
        self.registry = Registry(objects, strategies, release)
        self.name = name
        self._port = port
        self._certificates: Certificates | None = (
            None if plain else Certificates.make("kube-apiserver", HOST, "localhost", "kubernetes")
        )
        self._token = None if plain else secrets.token_urlsafe(32)
        served = Served.by(release, runtime_config)
        self._handlers = Handlers(self.registry, served, logs, self._token, release.kubelet_version)
        # What is too large is read, up to a limit, so that it can be answered as `handlers` does.
        self._listener = HttpListener(
            self._handlers.answer,
            largest_body=_LARGEST_BODY,
            shutdown_s=_SHUTDOWN_S,
            log=_LOG,
            handler_cancellation=True,
            max_line_size=_READ_LINE,
            max_field_size=_READ_LINE,
        )

    @property
    def url(self) -> str:
        """Where it listens, once it has started."""
        return f"{'http' if self._certificates is None else 'https'}://{HOST}:{self._port}"

    @property
    def authority(self) -> str:
        """The certificate, in PEM, by which the server's is known; empty where it has none."""
        return "" if self._certificates is None else self._certificates.authority.decode()

    def kubeconfig(self) -> JSON:
        """What a client needs to come in, in the form of kubectl's file."""
        cluster: JSON = {"server": self.url}
        if self._certificates is not None:
            cluster["certificate-authority-data"] = base64.b64encode(self._certificates.authority).decode()
        user: JSON = {"token": self._token} if self._token is not None else {}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": self.name, "cluster": cluster}],
            "users": [{"name": self.name, "user": user}],
            "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": self.name}}],
            "current-context": self.name,
        }

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the port is taken.
        """
        # Each connection has a buffer of this size for as long as it lasts; asyncio's own choice is 256 KiB.
        SSLProtocol.max_size = _TLS_RECORD
        context = self._certificates.server_context() if self._certificates is not None else None
        self._port = await self._listener.start(self._port, context)

    async def stop(self) -> None:
        """End all watches and connections; may be called twice."""
        self._handlers.reading.end_watches()
        await self._listener.stop()
