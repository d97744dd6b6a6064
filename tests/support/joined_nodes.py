"""`simkubelet join` as a user runs it, in processes, and the cluster that its nodes join.

The cluster is that of `simkubelet up`, without nodes of its own, or a real control plane where the nox session `join`
has built one and names its programs.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from simkubelet.remote import ApiClient, ApiError
from tests.support.live_cluster import environment, live_cluster
from tests.support.patience import LIMIT_S
from tests.support.short_paths import short_place
from tools.control_plane import ControlPlane

__all__ = [
    "PODS",
    "JoinProcess",
    "any_cluster",
    "control_plane",
    "eventually_so",
    "is_running",
    "joining",
    "until_started",
]

PODS: Final = "/api/v1/namespaces/default/pods"
PROGRAMS: Final = "SIMKUBELET_CONTROL_PLANE"


class JoinProcess:
    """A process that joins nodes.

    Attributes:
        process: itself.
        introduction: its first line.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.introduction = process.stdout.readline()
        if " joined " not in self.introduction:
            raise AssertionError(self.introduction + process.communicate(timeout=LIMIT_S)[1])

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> str:
        """End it; what it says on standard error."""
        self.process.send_signal(number)
        return self.process.communicate(timeout=LIMIT_S)[1]


@contextmanager
def joining(kubeconfig: Path, options: str = "") -> Iterator[JoinProcess]:
    """Join nodes until the end of the block; a process that has ended by then has been looked at."""
    with tempfile.TemporaryDirectory(prefix="join-", dir=short_place()) as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "simkubelet", "join", "--kubeconfig", str(kubeconfig), *shlex.split(options)],
            env=environment(Path(folder)),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield JoinProcess(process)
        finally:
            process.terminate()
            process.communicate(timeout=LIMIT_S)


@contextmanager
def control_plane(programs: Path) -> Iterator[ControlPlane]:
    """Run a real control plane in a folder of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="cp-", dir=short_place()) as folder,
        ControlPlane(programs, Path(folder)) as running,
    ):
        yield running


@contextmanager
def any_cluster() -> Iterator[Path]:
    """Run a cluster, and give its kubeconfig."""
    programs = os.environ.get(PROGRAMS)
    if programs:
        with control_plane(Path(programs)) as running:
            yield running.kubeconfig
    else:
        with live_cluster("--name joined") as cluster:
            # Its own node takes no pods.
            cluster.run(sys.executable, "-c", CORDON, str(cluster.kubeconfig))
            yield cluster.kubeconfig


CORDON: Final = """
import asyncio, pathlib, sys
from simkubelet.remote import ApiClient, read_kubeconfig

async def cordon():
    async with ApiClient(read_kubeconfig(pathlib.Path(sys.argv[1]))) as client:
        await client.patch("/api/v1/nodes/node-1", {"spec": {"unschedulable": True}})

asyncio.run(cordon())
"""


async def eventually_so(condition: Callable[[], Awaitable[object]]) -> None:
    """Wait for a condition on what an API server answers; an answer that does not come is none."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                if await condition():
                    return
            except ApiError as error:
                if error.status not in (0, 404):
                    raise
            await asyncio.sleep(0.1)


async def is_running(client: ApiClient, name: str) -> bool:
    """Whether a pod runs."""
    pod: dict[str, Any] = await client.get(f"{PODS}/{name}")
    return (pod.get("status") or {}).get("phase") == "Running"


async def until_started(client: ApiClient, pod: dict[str, Any], times: int) -> None:
    """Wait until containers of a pod were started so often, as the Events about it say.

    Events are sent apart from statuses; one that is still on its way is lost with a process that is killed.
    """
    query = {"fieldSelector": f"involvedObject.uid={pod['metadata']['uid']},reason=Started"}

    async def has_started() -> bool:
        events = (await client.get("/api/v1/namespaces/default/events", query))["items"]
        return bool(sum(event["count"] for event in events) == times)

    await eventually_so(has_started)
