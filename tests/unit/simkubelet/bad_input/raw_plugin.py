"""A device plugin that answers some of its calls with bytes of the test's choice, whether they are messages or not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import grpc

from simkubelet.apis import deviceplugin as api
from tests.support.node import StubPlugin

_REQUESTS = {
    "GetDevicePluginOptions": api.Empty,
    "GetPreferredAllocation": api.PreferredAllocationRequest,
    "Allocate": api.AllocateRequest,
    "PreStartContainer": api.PreStartContainerRequest,
}


class RawPlugin(StubPlugin):
    """A stub plugin.

    Attributes:
        answers: method -> its answer's bytes; the other methods answer as a stub plugin does. The bytes for
            ListAndWatch are sent in the place of every list.
    """

    def __init__(self, folder: Path, answers: Mapping[str, bytes] | None = None, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.answers = dict(answers or {})

    async def serve(self) -> None:
        handlers: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(self._method(name), request.FromString)
            for name, request in _REQUESTS.items()
        }
        handlers["ListAndWatch"] = grpc.unary_stream_rpc_method_handler(self._lists, api.Empty.FromString)
        unlimited = [("grpc.max_send_message_length", -1)]
        self._server = grpc.aio.server(options=unlimited)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers),))
        self._server.add_insecure_port(f"unix:{self.folder / self.endpoint}")
        await self._server.start()

    def _method(self, name: str) -> Callable[[Any, Any], Awaitable[bytes]]:
        async def answer(request: Any, context: Any) -> bytes:
            message = await getattr(super(RawPlugin, self), name)(request, context)
            return self.answers.get(name) or message.SerializeToString()

        return answer

    async def _lists(self, request: Any, context: Any) -> AsyncIterator[bytes]:
        async for message in super().ListAndWatch(request, context):
            yield self.answers.get("ListAndWatch") or message.SerializeToString()
