"""How containers end: by themselves, on SIGTERM, killed, with their node or its process; status and message."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from simkubelet._internal import piped_log
from simkubelet.devices.pod_devices import Mount
from simkubelet.host import rotated_files
from simkubelet.model.clock import ManualClock
from simkubelet.runtime.container_runtime import ExitReason, ExitStatus
from tests.support.patience import LIMIT_S

from .conftest import SomeNode

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("code", "reason"), [(0, ExitReason.COMPLETED), (3, ExitReason.ERROR)])
async def test_exit_status_is_the_programs(node, code, reason):
    container = await node.start("sh", "-c", f"exit {code}")

    assert await container.wait() == ExitStatus(code, reason)
    assert await container.wait() == ExitStatus(code, reason)


async def test_program_that_handles_sigterm_ends_by_itself(node):
    container = await node.start(
        "sh", "-c", "trap 'exit 5' TERM; echo ready >/out/fifo; while :; do sleep 0.01; done", mounts=fifo(node)
    )
    await opened(node)

    assert await container.stop(grace_s=30) == ExitStatus(5, ExitReason.ERROR)


async def test_program_has_real_time_to_end_while_the_nodes_time_leaps(node):
    node.clock = ManualClock()
    script = "trap 'echo asked >/out/fifo; read line </out/go; exit 5' TERM; echo ready >/out/fifo; sleep 1000 & wait"
    mounts = fifo(node)
    os.mkfifo(node.folder / "out" / "go")
    container = await node.start("sh", "-c", script, mounts=mounts)
    await opened(node)

    stopping = asyncio.create_task(container.stop(grace_s=30))
    await opened(node)
    await node.clock.advance(30)
    assert container.is_running
    await asyncio.to_thread((node.folder / "out" / "go").write_text, "on\n")

    assert await stopping == ExitStatus(5, ExitReason.ERROR)


async def test_program_that_does_not_is_killed_after_the_grace_of_the_nodes_clock(node):
    node.clock = ManualClock()
    container = await node.start("sh", "-c", "sleep 1000 & echo ready >/out/fifo; wait", mounts=fifo(node))
    await opened(node)

    stopping = asyncio.create_task(container.stop(grace_s=30))
    await node.clock.advance(29)
    assert container.is_running
    await node.clock.advance(1)

    assert await stopping == ExitStatus(137, ExitReason.ERROR)


async def test_stop_of_an_ended_container_gives_its_status(node):
    container = await node.start("false")
    await container.wait()

    assert await container.stop(grace_s=30) == ExitStatus(1, ExitReason.ERROR)


async def test_reboot_ends_what_runs_and_leaves_what_has_ended(node):
    ended = await node.start("true")
    await ended.wait()
    running = [await node.start("sleep", "1000") for _ in range(3)]

    await node.runtime.reboot()

    assert [await container.wait() for container in running] == [ExitStatus(255, ExitReason.UNKNOWN)] * 3
    assert (await ended.wait()).code == 0


async def test_start_that_is_cancelled_leaves_no_process(node):
    mounts = fifo(node)
    reader = os.open(node.folder / "out" / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    for turns in range(4):
        start = asyncio.create_task(node.start("sh", "-c", "exec 9>/out/fifo; sleep 1000", mounts=mounts))
        for _ in range(turns):
            await asyncio.sleep(0)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start

    assert os.read(reader, 1) == b""  # nobody has it open for writing
    os.close(reader)


SIMULATOR = """
import asyncio, sys
from pathlib import Path
from simkubelet.model.clock import RealClock
from simkubelet.model.pod import pod_from_manifest
from simkubelet.runtime.process_runtime import ProcessRuntime
from simkubelet.runtime import translated_files
from simkubelet.devices.pod_devices import DeviceRunOptions, Mount

translated_files._way = lambda: (sys.argv[3] or None, "")

async def main():
    command = ["sh", "-c", "exec 9>/out/fifo; echo ready >&9; setsid sleep 1000 & sleep 1000"]
    container = {"name": "c", "command": command}
    pod = pod_from_manifest({"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    options = DeviceRunOptions({}, (Mount(sys.argv[2], "/out", False),), (), {}, ())
    runtime = ProcessRuntime(Path(sys.argv[1]), Path(sys.argv[1]) / "logs", RealClock())
    running = await runtime.start(pod, pod.containers[0], options)
    await running.wait()

asyncio.run(main())
"""


async def test_containers_end_when_the_simulator_is_killed(node, way):
    fifo(node)
    simulator = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SIMULATOR, node.folder, node.folder / "out", way[0] or ""),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    reader = await asyncio.to_thread((node.folder / "out" / "fifo").open, "rb", 0)
    with reader:
        assert await asyncio.to_thread(reader.read, 6) == b"ready\n"
        simulator.send_signal(signal.SIGKILL)
        await simulator.wait()

        # The end of the file comes when the last process of the container is gone.
        assert await asyncio.wait_for(asyncio.to_thread(reader.read), LIMIT_S) == b""


async def test_nothing_is_left_of_a_container_whose_program_ends(node):
    script = "exec 9>/out/fifo; echo ready >&9; setsid sleep 1000 & exit 0"
    container = await node.start("sh", "-c", script, mounts=fifo(node))
    with await asyncio.to_thread((node.folder / "out" / "fifo").open, "rb", 0) as reader:
        assert (await container.wait()).code == 0

        assert await asyncio.wait_for(asyncio.to_thread(reader.read), LIMIT_S) == b"ready\n"
    assert list(node.folder.glob("containers/*")) == []


async def test_message_that_the_container_leaves_is_in_its_status(node):
    container = await node.start("sh", "-c", "echo out of luck >/dev/termination-log; exit 1")

    assert await container.wait() == ExitStatus(1, ExitReason.ERROR, "out of luck\n")


@pytest.mark.parametrize(("code", "message"), [(1, "last words\n"), (0, "")])
async def test_end_of_the_log_replaces_the_message_of_a_failure(node, code, message):
    script = f"echo last words; exit {code}"

    container = await node.start("sh", "-c", script, terminationMessagePolicy="FallbackToLogsOnError")

    assert (await container.wait()).message == message


async def test_log_of_a_container_that_floods_is_bounded(node, monkeypatch):
    monkeypatch.setattr(piped_log, "_MOST_BYTES", 1 << 20)

    container = await node.start("sh", "-c", "yes | head -c 30000000; echo over")
    status = await container.wait()

    assert status == ExitStatus(0, ExitReason.COMPLETED)
    assert container.log.read_bytes().endswith(b"y\nover\n")
    assert 1 <= len(rotated_files(container.log)) <= 4
    assert sum(file.stat().st_size for file in container.log.parent.iterdir()) < 5 << 20


def fifo(node: SomeNode) -> tuple[Mount, ...]:
    """A mount in which a container opens a fifo to say that it is there."""
    folder = node.folder / "out"
    folder.mkdir()
    os.mkfifo(folder / "fifo")
    return (Mount(str(folder), "/out", False),)


async def opened(node: SomeNode) -> None:
    with await asyncio.to_thread((node.folder / "out" / "fifo").open, "rb", 0) as reader:
        await asyncio.to_thread(reader.read)
