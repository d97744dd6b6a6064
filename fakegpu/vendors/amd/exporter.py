"""The health service of AMD's metrics exporter, for the AMD GPUs below a folder.

It reports of each device what ``amd.set_health`` last set. AMD's device plugin looks for it at ``SOCKET``.

Source: ROCm/k8s-device-plugin, internal/pkg/exporter: service ``metricssvc.MetricsService``, messages ``GPUState``,
``GPUGetRequest`` and ``GPUStateResponse``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...errors import HostError
from .machine import health

__all__ = ["SOCKET", "exporter"]

if TYPE_CHECKING:
    import grpc

SOCKET: Final = Path("/var/lib/amd-metrics-exporter/amdgpu_device_metrics_exporter_grpc.socket")
_VERBOSITY: Final = "GRPC_VERBOSITY"
_SERVICE: Final = "metricssvc.MetricsService"
_LENGTH_DELIMITED: Final = 2
_STATES: Final = 1
_ID: Final = 1
_HEALTH: Final = 3
_DEVICE: Final = 5


@contextmanager
def exporter(root: Path, socket: Path = SOCKET) -> Iterator[grpc.Server]:
    """Serve until the context ends.

    Args:
        root: folder of the GPUs.
        socket: where to listen; its folder must be there.

    Raises:
        InputError: there are no AMD GPUs in ``root``.
        HostError: the socket cannot be made.
    """
    grpc = _quiet_grpc()
    health(root)

    def answer(request: bytes, _context: Any) -> bytes:
        wanted = set(_texts(request, _ID))
        known = health(root)
        return _message(known if not wanted else {name: known[name] for name in known if name in wanted})

    handler = grpc.unary_unary_rpc_method_handler(answer)
    methods = dict.fromkeys(("List", "GetGPUState"), handler)
    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(_SERVICE, methods)])
    try:
        server.add_insecure_port(f"unix:{socket}")
    except RuntimeError:
        raise HostError(f"cannot listen on {socket}: is its folder there, and ours to write?") from None
    server.start()
    try:
        yield server
    finally:
        server.stop(None).wait()
        if socket.is_socket():
            socket.unlink(missing_ok=True)


def _quiet_grpc() -> Any:
    """Load gRPC's library so that it prints nothing for its own developers, as where a client ends.

    It is the one server of this package, which has no gRPC of its own. The setting is read when the library is loaded.
    """
    if _VERBOSITY in os.environ:
        return importlib.import_module("grpc")
    os.environ[_VERBOSITY] = "NONE"
    try:
        return importlib.import_module("grpc")
    finally:
        del os.environ[_VERBOSITY]


def _message(states: Mapping[str, str]) -> bytes:
    """A GPUStateResponse."""
    return b"".join(
        _field(_STATES, _field(_ID, str(number)) + _field(_HEALTH, state) + _field(_DEVICE, name))
        for number, (name, state) in enumerate(states.items())
    )


def _field(number: int, value: str | bytes) -> bytes:
    """One field of text or of a message, as protobuf writes it."""
    content = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | _LENGTH_DELIMITED]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    low = bytes([number & 0x7F | (0x80 if number > 0x7F else 0)])
    return low + (_varint(number >> 7) if number > 0x7F else b"")


def _texts(message: bytes, number: int) -> Iterable[str]:
    """The texts in one field of a message that has fields of text only."""
    position = 0
    while position + 1 < len(message):
        tag, length = message[position], message[position + 1]
        content = message[position + 2 : position + 2 + length]
        if tag == number << 3 | _LENGTH_DELIMITED:
            yield content.decode(errors="replace")
        position += 2 + length
