"""What a tap reports about the connections through it: how many the kubelet has, and to which process."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

from tests.support.patience import until
from tests.support.tapped import Between

# A plugin in a process of its own: it listens, and is silent.
SILENT = """
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
sys.stdin.read()
"""


async def test_next_process_on_the_same_socket_is_another(between: Between) -> None:
    place, told = between.of_plugin / "p.sock", []
    for _ in range(2):
        place.unlink(missing_ok=True)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SILENT, str(place), stdin=asyncio.subprocess.PIPE
        )
        told.append({"process": process.pid})
        await reached(between, place)
        process.kill()
        await process.wait()
        await until(lambda: between.links[-1] == {"connections": 0})

    assert [report for report in between.links if "process" in report] == told


async def reached(between: Between, place: Path) -> None:
    """Connect through the tap as soon as the plugin listens."""
    before = len(between.links)
    while len(between.links) == before:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.setblocking(False)
            if caller.connect_ex(str(between.mirror_of(place))) == 0:
                await until(lambda: len(between.links) > before or has_hung_up(caller))
        await asyncio.sleep(0.001)


def has_hung_up(caller: socket.socket) -> bool:
    try:
        return caller.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
