"""Fixtures feed in: a folder that is short enough for sockets, and a kubelet that records registrations.

Observed are the registrations, the answers on the plugin's own socket, and what stays behind in the folder.
"""

from __future__ import annotations

import asyncio
import queue
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from plugin.nvidia.nvml import EventType, GpuHandle, NvmlError, NvmlEvent, NvmlReturn
from simkubelet.apis import deviceplugin as api

_PATIENCE_S = 20.0


class FakeKubelet(api.RegistrationServicer):
    """Serves ``kubelet.sock`` and keeps what plugins tell it.

    `refusal` is the answer to every registration, if set; with `refused_resource` to those of that resource alone.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / api.KUBELET_SOCKET_NAME
        self.refusal: str | None = None
        self.refused_resource: str | None = None
        self.requests: asyncio.Queue[api.RegisterRequest] = asyncio.Queue()
        self._server: grpc.aio.Server | None = None

    async def Register(self, request: api.RegisterRequest, context: grpc.aio.ServicerContext) -> api.Empty:
        self.requests.put_nowait(request)
        if self.refusal is not None and self.refused_resource in (None, request.resource_name):
            await context.abort(grpc.StatusCode.UNKNOWN, self.refusal)
        return api.Empty()

    async def start(self) -> None:
        """Remove every socket of the folder and serve, as a new kubelet does."""
        for path in self.folder.iterdir():
            if path.is_socket():
                path.unlink()
        self._server = grpc.aio.server()
        api.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{self.socket}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def registration(self) -> api.RegisterRequest:
        """The next registration."""
        async with asyncio.timeout(_PATIENCE_S):
            return await self.requests.get()


@pytest.fixture
def kubelet_dir() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="plg-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def kubelet(kubelet_dir: Path) -> AsyncIterator[FakeKubelet]:
    """A kubelet that is up."""
    fake = FakeKubelet(kubelet_dir)
    await fake.start()
    yield fake
    await fake.stop()


class FakeNvml:
    """NVML of a machine made of plain values; the health thread waits for what `events` gets.

    A method named in `failures` raises that return code; `events` takes `NvmlEvent` or `NvmlError`. The GPUs of the
    indices in `too_old` have no events.
    """

    def __init__(self, count: int) -> None:
        self.names = [f"Fake GPU {index}" for index in range(count)]
        self.bus_ids = [f"0000:{index + 1:02x}:00.0" for index in range(count)]
        self.uuids = [f"GPU-{index}" for index in range(count)]
        self.ancestors: dict[frozenset[int], int] = {}
        self.nvlinks: dict[int, dict[int, str]] = {}
        self.failures: dict[str, NvmlReturn | int] = {}
        self.events: queue.Queue[NvmlEvent | NvmlError] = queue.Queue()
        self.registered: list[str] = []
        self.too_old: set[int] = set()
        self.sessions = 0

    def _maybe_fail(self, method: str) -> None:
        if method in self.failures:
            code = int(self.failures[method])
            raise NvmlError(code, f"code {code}")

    def init(self) -> None:
        self._maybe_fail("init")
        self.sessions += 1

    def shutdown(self) -> None:
        assert self.sessions > 0
        self.sessions -= 1

    def gpu_count(self) -> int:
        self._maybe_fail("gpu_count")
        return len(self.uuids)

    def gpu_by_index(self, index: int) -> Any:
        self._maybe_fail("gpu_by_index")
        return index

    def gpu_by_uuid(self, uuid: str) -> Any:
        self._maybe_fail("gpu_by_uuid")
        return self.uuids.index(uuid)

    def name(self, gpu: Any) -> str:
        self._maybe_fail("name")
        return self.names[gpu]

    def uuid(self, gpu: Any) -> str:
        self._maybe_fail("uuid")
        return self.uuids[gpu]

    def pci_bus_id(self, gpu: Any) -> str:
        self._maybe_fail("pci_bus_id")
        return self.bus_ids[gpu]

    def common_ancestor(self, gpu: Any, other: Any) -> int:
        self._maybe_fail("common_ancestor")
        return self.ancestors.get(frozenset((gpu, other)), 50)

    def nvlink_is_enabled(self, gpu: Any, link: int) -> bool:
        self._maybe_fail("nvlink_is_enabled")
        return link in self.nvlinks.get(gpu, {})

    def nvlink_remote_bus_id(self, gpu: Any, link: int) -> str:
        self._maybe_fail("nvlink_remote_bus_id")
        return self.nvlinks[gpu][link]

    def create_event_set(self) -> Any:
        self._maybe_fail("create_event_set")
        return object()

    def free_event_set(self, events: Any) -> None:
        pass

    def supported_events(self, gpu: Any) -> int:
        self._maybe_fail("supported_events")
        return 0x1F

    def register_events(self, gpu: Any, event_types: int, events: Any) -> None:
        self._maybe_fail("register_events")
        if gpu in self.too_old:
            raise NvmlError(NvmlReturn.NOT_SUPPORTED, "Not Supported")
        self.registered.append(self.uuids[gpu])

    def wait(self, events: Any, timeout_ms: int) -> NvmlEvent:
        # Shorter than asked for, so that no thread outlives the test run for long.
        try:
            event = self.events.get(timeout=0.2)
        except queue.Empty:
            raise NvmlError(NvmlReturn.TIMEOUT, "Timeout") from None
        if isinstance(event, NvmlError):
            raise event
        return event

    def xid(self, gpu: int, xid: int) -> None:
        """Report an XID of the GPU of this index."""
        self.events.put(NvmlEvent(GpuHandle(gpu), EventType.XID_CRITICAL_ERROR, xid))


@pytest.fixture
def make_nvml() -> Callable[[int], FakeNvml]:
    """Makes the NVML of a machine with so many GPUs."""
    return FakeNvml
