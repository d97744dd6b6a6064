"""The API server of a simulated world, for stories whose plugins talk to it; the others are spared it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from simkubelet.cluster import JSON, ApiServer, NodeLogs, Objects, all_strategies
from simkubelet.kubelet import Kubelet
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
    server = ApiServer(objects, all_strategies(objects), logs=logs, version=version.kubelet_version)
    try:
        await server.start()
    except OSError as error:
        raise HostError(f"the API server cannot listen on this machine: {error.strerror}") from None
    try:
        yield server.kubeconfig()
    finally:
        await server.stop()
