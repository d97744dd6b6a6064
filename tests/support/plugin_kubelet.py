"""What a plugin's process meets: a kubelet that does as a test says, and the process with what it holds.

::

    async with PluginKubelet(folder) as kubelet, plugin_process(command, log) as process:
        request = await kubelet.registration()
        async with kubelet.plugin(request.endpoint) as stub: ...
        await kubelet.restart()

The kubelet keeps what plugins register and calls nobody by itself.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import grpc

from simkubelet.apis import deviceplugin as api

__all__ = ["LIMIT_S", "PluginKubelet", "PluginProcess", "plugin_process"]

LIMIT_S: Final = 60.0
"""A guard only, for a busy machine: nothing waits for it to pass."""

_ROOT: Final = Path(__file__).parents[2]
_POLL_S: Final = 0.02
_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1),)


class PluginKubelet(api.RegistrationServicer):
    """Serves ``kubelet.sock`` in a folder.

    Attributes:
        refusal: What registrations are answered with, if set.
        may_answer: Registrations are answered while it is set, as it is at first.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / api.KUBELET_SOCKET_NAME
        self.refusal: str | None = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._requests: asyncio.Queue[api.RegisterRequest] = asyncio.Queue()
        self._server: grpc.aio.Server | None = None
        self._streams = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Remove all sockets of the folder and serve, as a new kubelet does."""
        for path in self.folder.iterdir():
            if path.is_socket():
                path.unlink(missing_ok=True)
        self._server = grpc.aio.server()
        api.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{self.socket}")
        await self._server.start()

    async def stop(self, grace_s: float | None = None) -> None:
        """End without a trace but the socket's file, as a killed kubelet does; in a grace calls are still answered."""
        server, self._server = self._server, None
        await self._streams.aclose()
        if server is not None:
            await server.stop(grace_s)

    async def restart(self) -> None:
        """End when all registrations are answered, and start as a new kubelet."""
        await self.stop(LIMIT_S)
        await self.start()

    async def registration(self) -> api.RegisterRequest:
        """The next registration that was not asked for yet."""
        async with asyncio.timeout(LIMIT_S):
            return await self._requests.get()

    @property
    def registrations(self) -> int:
        """How many registrations were not asked for yet."""
        return self._requests.qsize()

    @asynccontextmanager
    async def plugin(self, endpoint: str) -> AsyncIterator[api.DevicePluginAsyncStub]:
        """A connection to a plugin's socket."""
        async with grpc.aio.insecure_channel(f"unix:{self.folder / endpoint}", options=_OPTIONS) as channel:
            async with asyncio.timeout(LIMIT_S):
                await channel.channel_ready()
            yield api.DevicePluginStub(channel)

    async def listed(self, endpoint: str) -> list[api.Device]:
        """The first list of a stream that stays open as long as this kubelet."""
        plugin = await self._streams.enter_async_context(self.plugin(endpoint))
        async with asyncio.timeout(LIMIT_S):
            stream = plugin.ListAndWatch(api.Empty())
            self._streams.callback(stream.cancel)
            return await _devices_in(stream)

    async def first_list(self, endpoint: str) -> list[api.Device]:
        """The first list of a stream that is opened for it."""
        async with self.plugin(endpoint) as plugin, asyncio.timeout(LIMIT_S):
            stream = plugin.ListAndWatch(api.Empty())
            found = await _devices_in(stream)
            stream.cancel()
            return found

    async def Register(
        self, request: api.RegisterRequest, context: grpc.aio.ServicerContext[api.RegisterRequest, api.Empty]
    ) -> api.Empty:
        self._requests.put_nowait(request)
        await self.may_answer.wait()
        if self.refusal is not None:
            await context.abort(grpc.StatusCode.UNKNOWN, self.refusal)
        return api.Empty()


async def _devices_in(stream: Any) -> list[api.Device]:
    """Of the next list."""
    return list((await stream.read()).devices)


@dataclass(frozen=True)
class Held:
    """What a process holds: open descriptors without those of ``/proc``, and threads."""

    descriptors: int
    threads: int

    def __le__(self, other: Held) -> bool:
        return self.descriptors <= other.descriptors and self.threads <= other.threads


class PluginProcess:
    """A process of a plugin; its log is a file."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        """All that it wrote so far."""
        return self._log.read_text(errors="replace")

    def held(self) -> Held:
        """What it holds at this moment."""
        proc = Path(f"/proc/{self.pid}")
        return Held(*(sum(1 for _ in (proc / what).iterdir()) for what in ("fd", "task")))

    async def held_at_rest(self, at_most: Held) -> Held:
        """What it holds once that is no more than `at_most`, or after the limit."""
        try:
            async with asyncio.timeout(LIMIT_S):
                while not (held := self.held()) <= at_most:  # noqa: ASYNC110 - another process sets no event
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            return self.held()
        return held

    async def logged(self, text: str, times: int = 1) -> None:
        """Wait until the log has a text so many times."""
        try:
            async with asyncio.timeout(LIMIT_S):
                while self.log.count(text) < times:  # noqa: ASYNC110 - another process sets no event
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise AssertionError(f"not {times} times {text!r} in\n{self.log}") from None

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    async def exit_status(self) -> int:
        """Its status once it has ended; below zero it is a signal.

        Raises:
            TimeoutError: it does not end.
        """
        async with asyncio.timeout(LIMIT_S):
            return await self._process.wait()

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.returncode is None


@asynccontextmanager
async def plugin_process(
    arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[PluginProcess]:
    """Run ``simkubelet plugin`` with some arguments; it is killed at the end, if it still runs."""
    with log.open("ab") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "simkubelet", "plugin", *arguments),
            cwd=_ROOT,
            env={**os.environ, **(environment or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        yield PluginProcess(process, log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
