"""Asks AMD's metrics exporter, a server of its own on the node, for the health of each device.

Source: ROCm/k8s-device-plugin, internal/pkg/exporter/health.go: service ``metricssvc.MetricsService``, messages
``GPUStateResponse`` (field 1: states) and ``GPUState`` (field 3: health, field 5: device) (August 2026).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..framework import Health
from ..framework.client import DialError, RpcError, call_once

__all__ = ["SOCKET", "exported_health"]

_log = logging.getLogger(__name__)

SOCKET: Final = Path("/var/lib/amd-metrics-exporter/amdgpu_device_metrics_exporter_grpc.socket")
"""Where the exporter listens on a node."""
_METHOD: Final = "/metricssvc.MetricsService/List"
_TIME_LIMIT_S: Final = 5.0
_DIAL_LIMIT_S: Final = 1.0
"""The original does not wait for one that has left its socket behind; one that listens answers at once."""
_UNHEALTHY: Final = "unhealthy"
_STATES, _HEALTH, _DEVICE = 1, 3, 5
_VARINT, _BYTES = 0, 2
_FIXED_SIZES: Final = {1: 8, 5: 4}


async def exported_health(socket: Path) -> dict[str, Health]:
    """The health of each device that the exporter reports; nothing where there is none, or it does not answer."""
    if not socket.exists():  # noqa: ASYNC240 - one call of the system, as quick as a look at the clock
        return {}
    try:
        async with asyncio.timeout(_TIME_LIMIT_S):
            # The name of a link may be longer than that of a socket can be.
            return _healths(await call_once(socket.resolve(), _METHOD, b"", _DIAL_LIMIT_S))  # noqa: ASYNC240
    except (RpcError, DialError, TimeoutError, ValueError) as error:
        _log.error("Error getting health info svc : %s", error)
        return {}


def _healths(message: bytes) -> dict[str, Health]:
    """A GPUStateResponse; any word but one means healthy.

    Raises:
        ValueError: it is none.
    """
    healths = {}
    for number, state in _fields(message):
        if number == _STATES:
            words = dict(_fields(state))
            is_ill = words.get(_HEALTH, b"").decode(errors="replace") == _UNHEALTHY
            healths[words.get(_DEVICE, b"").decode(errors="replace")] = Health.UNHEALTHY if is_ill else Health.HEALTHY
    return healths


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that hold bytes, with their numbers; others are passed over."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            _, position = _varint(message, position)
        elif kind == _BYTES:
            length, position = _varint(message, position)
            yield number, message[position : position + length]
            position += length
        elif kind in _FIXED_SIZES:
            position += _FIXED_SIZES[kind]
        else:
            raise ValueError(f"field {number} is of no kind that a message has")


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """A number of variable length, and the position behind it."""
    number = shift = 0
    while True:
        if position >= len(message):
            raise ValueError("the message ends in the middle of a number")
        byte = message[position]
        number |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return number, position
