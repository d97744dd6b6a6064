"""What a plugin's process meets: a kubelet that does as a test says, and the process with what it holds.

::

    async with FakeKubelet(folder) as kubelet, plugin_process(command, log) as process:
        request = await kubelet.registration()
        async with kubelet.plugin(request.endpoint) as stub: ...
        await kubelet.restart()

The kubelet keeps what plugins register and calls nobody by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import pytest

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.apis.grpcwire.server import GrpcServer
from tests.support.grpc_peers import DEVICE_PLUGIN, REGISTRATION, Answers, Calls, Context, calls, methods_of, serve
from tests.support.patience import LIMIT_S, until
from tests.support.short_paths import short_place

__all__ = ["FakeKubelet", "KubeletThread", "PluginProcess", "_own_log", "kubelet", "kubelet_dir", "plugin_process"]

T = TypeVar("T")

_ROOT: Final = Path(__file__).parents[2]


class FakeKubelet:
    """Serves ``kubelet.sock`` in a folder.

    Attributes:
        refusal: What registrations are answered with, if set.
        refused_resource: The resource whose registrations alone are answered so, if set.
        may_answer: Registrations are answered while it is set, as it is at first.
        requests: The registrations that were not asked for yet.
        seen: All registrations.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / api.KUBELET_SOCKET_NAME
        self.refusal: str | None = None
        self.refused_resource: str | None = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.requests: asyncio.Queue[api.RegisterRequest] = asyncio.Queue()
        self.seen: list[api.RegisterRequest] = []
        self._server: GrpcServer | None = None
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
        self._server = await serve(methods_of(self, REGISTRATION), self.socket)

    async def stop(self, grace_s: float = 0.0) -> None:
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
            return await self.requests.get()

    def forget(self) -> None:
        """Ask for no registration that came until now."""
        self.requests = asyncio.Queue()

    @property
    def registrations(self) -> int:
        """How many registrations were not asked for yet."""
        return self.requests.qsize()

    @asynccontextmanager
    async def plugin(self, endpoint: str) -> AsyncIterator[Calls]:
        """A connection to a plugin's socket."""
        async with calls(self.folder / endpoint, DEVICE_PLUGIN, waits=True) as plugin:
            yield plugin

    async def listed(self, endpoint: str) -> list[api.Device]:
        """The first list of a stream that stays open as long as this kubelet."""
        plugin = await self._streams.enter_async_context(self.plugin(endpoint))
        stream = plugin.ListAndWatch(api.Empty())
        self._streams.push_async_callback(stream.cancel)
        return await _devices_in(stream)

    async def first_list(self, endpoint: str) -> list[api.Device]:
        """The first list of a stream that is opened for it."""
        async with self.plugin(endpoint) as plugin:
            stream = plugin.ListAndWatch(api.Empty())
            found = await _devices_in(stream)
            await stream.cancel()
            return found

    async def Register(self, request: api.RegisterRequest, context: Context) -> api.Empty:
        self.seen.append(request)
        self.requests.put_nowait(request)
        await self.may_answer.wait()
        if self.refusal is not None and self.refused_resource in (None, request.resource_name):
            await context.abort(Code.UNKNOWN, self.refusal)
        return api.Empty()


async def _devices_in(stream: Answers) -> list[api.Device]:
    """Of the next list."""
    async with asyncio.timeout(LIMIT_S):
        return list((await stream.read()).devices)


@dataclass(frozen=True)
class Held:
    """What a process holds: open descriptors without those of ``/proc``, and threads."""

    descriptors: int
    threads: int

    def __le__(self, other: Held) -> bool:
        return self.descriptors <= other.descriptors and self.threads <= other.threads


class KubeletThread:
    """A `FakeKubelet` on a thread of its own, for tests and benchmarks that block."""

    def __init__(self, folder: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._kubelet = FakeKubelet(folder)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        self._thread.start()
        self._run(self._kubelet.start())

    def stop(self) -> None:
        self._run(self._kubelet.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def registration(self) -> api.RegisterRequest:
        """The next registration that was not asked for yet."""
        return self._run(self._kubelet.registration())

    @property
    def seen(self) -> list[api.RegisterRequest]:
        """All registrations."""
        return list(self._kubelet.seen)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_S)


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
        with contextlib.suppress(AssertionError):
            await until(lambda: self.held() <= at_most)
        return self.held()

    async def logged(self, text: str, times: int = 1) -> None:
        """Wait until the log has a text so many times."""
        await until(lambda: self.log.count(text) >= times, lambda: f"not {times} times {text!r} in\n{self.log}")

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


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """Take back what a plugin that a test has started set up for its log."""
    logger = logging.getLogger("plugin")
    handlers, level, propagates = logger.handlers, logger.level, logger.propagate
    yield
    logger.handlers, logger.propagate = handlers, propagates
    logger.setLevel(level)


@pytest.fixture
def kubelet_dir() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="plg-", dir=short_place()))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def kubelet(kubelet_dir: Path) -> AsyncIterator[FakeKubelet]:
    """A kubelet that is up."""
    async with FakeKubelet(kubelet_dir) as fake:
        yield fake
