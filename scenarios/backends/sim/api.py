"""The API server of a simulated world, for stories whose plugins talk to it; the others are spared it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from simkubelet.cluster import Objects
from simkubelet.cluster.api.endpoints.server import ApiServer
from simkubelet.cluster.node_logs import NodeLogs
from simkubelet.cluster.objects.objects import JSON
from simkubelet.cluster.strategies.table import strategies
from simkubelet.kubelet.kubelet import Kubelet
from simkubelet.model.errors import HostError
from simkubelet.model.version import Version


@asynccontextmanager
async def serving_api(
    objects: Objects, kubelets: Mapping[str, Kubelet], version: Version
) -> AsyncGenerator[JSON, None]:
    """Serve the objects of a world on a free port.

    Yields:
        The kubeconfig with which plugins come in.

    Raises:
        HostError: no port can be had.
    """
    logs = NodeLogs(kubelets, lambda: datetime.now(UTC))
    server = ApiServer(objects, strategies(objects), logs=logs, version=version.kubelet_version)
    try:
        await server.start()
    except OSError as error:
        raise HostError(f"the API server cannot listen on this machine: {error.strerror}") from None
    try:
        yield server.kubeconfig()
    finally:
        await server.stop()
