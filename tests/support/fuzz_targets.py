"""What is fuzzed: each target takes any bytes, and raises nothing but what its readers promise.

The unit tests give each target the inputs of its corpus; the session `fuzz` looks for others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from scenarios.story.document import load
from simkubelet.apis import deviceplugin, pluginregistration, podresources
from simkubelet.apis.grpcwire.client import ClientConnection, RpcError
from simkubelet.apis.grpcwire.end import End
from simkubelet.apis.grpcwire.frames import PREFACE, Frame, Type
from simkubelet.apis.grpcwire.server import GrpcServer
from simkubelet.cdi import SpecError, parse_spec
from simkubelet.cluster.api.decoding.definitions import schema_of
from simkubelet.cluster.api.decoding.documents import json_document, yaml_document
from simkubelet.cluster.api.decoding.protobuf import ProtobufError, read_protobuf
from simkubelet.devices.checkpoint import CorruptCheckpointError, decode
from simkubelet.golang.message import UnreadableMessageError, read_message, served_method
from simkubelet.model.errors import InputError
from simkubelet.model.version import version
from simkubelet.pods.static_pods import read_static_pods
from simkubelet.registration.plugin_client import read_list

__all__ = ["CORPUS", "SEEDS", "TARGETS"]

_ROOT: Final = Path(__file__).resolve().parents[2]
CORPUS: Final = _ROOT / "tests" / "fuzz" / "corpus"
SEEDS: Final[Mapping[str, tuple[Path, ...]]] = {
    "story": tuple(sorted({path.parent for path in (_ROOT / "scenarios" / "catalog").rglob("*.yaml")})),
}
"""Folders of further inputs to begin with."""

_VERSIONS: Final = (version("1.34"), version("1.37"))
_MESSAGES: Final = (
    *(deviceplugin.AllocateResponse, deviceplugin.RegisterRequest, deviceplugin.DevicePluginOptions),
    *(pluginregistration.PluginInfo, podresources.ListPodResourcesResponse),
)
_SETTINGS: Final = Frame(Type.SETTINGS, 0, 0, b"").encoded()
_ALLOCATE: Final = "/v1beta1.DevicePlugin/Allocate"
_LIST: Final = "/v1beta1.DevicePlugin/ListAndWatch"
_TURNS: Final = 4
"""Of the event loop, in which what has come is answered."""


def _story(data: bytes) -> None:
    with TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder, "story.yaml")
        path.write_bytes(data)
        with suppress(InputError):
            load(path)


def _documents(data: bytes) -> None:
    for read in (yaml_document, json_document):
        with suppress(ValueError):
            read(data)


def _manifest(data: bytes) -> None:
    with TemporaryDirectory(dir="/dev/shm") as folder:
        Path(folder, "pod.yaml").write_bytes(data)
        asyncio.run(read_static_pods(Path(folder), "node", Path(folder)))


def _messages(data: bytes) -> None:
    for release in _VERSIONS:
        for kind in _MESSAGES:
            with suppress(UnreadableMessageError):
                read_message(kind, data, release)
        with suppress(UnreadableMessageError):
            read_list(data, release)


def _objects(data: bytes) -> None:
    for kind in ("Pod", "Secret"):
        # A text that is not UTF-8 is a ValueError too, which the decoder answers.
        with suppress(ProtobufError, ValueError):
            read_protobuf(b"k8s\0" + data, schema_of("", "v1", kind))


def _cdi(data: bytes) -> None:
    with suppress(SpecError, UnicodeDecodeError):
        parse_spec(data.decode())


def _checkpoint(data: bytes) -> None:
    for reads_old_format in (False, True):
        with suppress(CorruptCheckpointError):
            decode(data.decode(errors="replace"), reads_old_format=reads_old_format)


class _Wire(asyncio.Transport):
    """Takes what an end writes."""

    def __init__(self, end: End) -> None:
        super().__init__()
        self._end = end
        self._is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Drop it."""

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self._is_closed = True

    abort = close

    def give(self, data: bytes) -> None:
        """What the other side sends."""
        if not self._is_closed:
            self._end.data_received(data)


async def _serve(data: bytes) -> None:
    async def allocate(request: deviceplugin.AllocateRequest) -> deviceplugin.AllocateResponse:
        return deviceplugin.AllocateResponse()

    server = GrpcServer({_ALLOCATE: served_method(deviceplugin.AllocateRequest, allocate, _VERSIONS[0])})
    end = server._new_end()
    wire = _Wire(end)
    end.connection_made(wire)
    wire.give(PREFACE + _SETTINGS)
    half = len(data) // 2
    for part in (data[:half], data[half:]):
        wire.give(part)
        for _ in range(_TURNS):
            await asyncio.sleep(0)
    end.connection_lost(None)
    await server.stop()


async def _call(data: bytes) -> None:
    client = ClientConnection("nowhere")
    end = client._end
    wire = _Wire(end)
    end.connection_made(wire)
    client._end.send_frame(Frame(Type.SETTINGS, 0, 0, b""))
    wire.give(_SETTINGS)

    async def listen() -> None:
        async for _ in client.stream(_LIST, b""):
            pass

    calls = [asyncio.ensure_future(client.call(_ALLOCATE, b"")), asyncio.ensure_future(listen())]
    for part in (b"", data[: len(data) // 2], data[len(data) // 2 :]):
        wire.give(part)
        for _ in range(_TURNS):
            await asyncio.sleep(0)
    client.close()
    end.connection_lost(None)
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException) and not isinstance(outcome, RpcError):
            raise outcome


def _in_loop(work: Callable[[bytes], Awaitable[None]]) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        failures: list[BaseException] = []

        async def watched() -> None:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(
                lambda _, context: failures.append(context.get("exception") or Exception(context))
            )
            await work(data)

        asyncio.run(watched())
        if failures:
            raise failures[0]

    return run


TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = {
    "story": _story,
    "documents": _documents,
    "manifest": _manifest,
    "messages": _messages,
    "objects": _objects,
    "cdi": _cdi,
    "checkpoint": _checkpoint,
    "grpc-server": _in_loop(_serve),
    "grpc-client": _in_loop(_call),
}
