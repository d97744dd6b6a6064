"""Fed in: plugins with rules other than NVIDIA's, new and vanished sockets, signals; observed: lives and their end."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.support.patience import LIMIT_S

_ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "number", "status"),
    [
        pytest.param("signals={}", signal.SIGTERM, 2, id="uncaught"),
        pytest.param("signals={}", signal.SIGQUIT, 2, id="a Go program dumps its stacks"),
        pytest.param("keeps_sockets=True, stop_status=3", signal.SIGTERM, 3, id="caught"),
    ],
)
async def test_plugin_that_cleans_nothing_up_leaves_its_socket(
    kubelet: Any, kubelet_dir: Path, policy: str, number: signal.Signals, status: int
) -> None:
    program = f"""\
        import sys
        from pathlib import Path
        from simkubelet.framework import Device, DevicePlugin, RestartPolicy, run

        class Seats(DevicePlugin):
            resource_name, socket_name = "example.com/seat", "seats.sock"
            async def devices(self):
                yield (Device("s0"),)

        sys.exit(run(lambda: [Seats()], kubelet_dir=Path({str(kubelet_dir)!r}), policy=RestartPolicy({policy})))
        """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", textwrap.dedent(program)), cwd=_ROOT, stderr=subprocess.DEVNULL
    )
    try:
        await kubelet.registration()
        process.send_signal(number)
        async with asyncio.timeout(LIMIT_S):
            assert await process.wait() == status
    finally:
        if process.returncode is None:
            process.kill()

    assert (kubelet_dir / "seats.sock").exists()
