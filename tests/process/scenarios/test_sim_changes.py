"""What steps change on a simulated node from outside: its files and folders, its container runtime."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest

from scenarios.backends.sim.changes import run_command
from scenarios.backends.world.node import SimNode
from scenarios.story.specs import NodeSpec
from scenarios.story.verbs.file_action import (
    CreateFile,
    CreateFolder,
    MoveFile,
    RemoveFile,
    RemoveFolder,
)
from scenarios.story.verbs.node_action import RunCommand
from scenarios.trace.trace import Trace
from simkubelet._internal.sandbox import check_sandbox, sandboxed
from simkubelet.model.errors import HostError
from tests.support.patience import LIMIT_S, until
from tests.support.stories import SOCKETS, change


async def test_command_that_is_given_up_does_not_wait_for_its_children(tmp_path: Path, trace: Trace) -> None:
    """A story that is interrupted, or takes longer than its time, ends; the shell's child still has its pipe."""
    pids = tmp_path / "pids"
    action = RunCommand.model_validate({"command": ["sh", "-c", f"sleep 300 & echo $$ $! > {pids}; wait"]})

    command = asyncio.create_task(run_command(action, trace))
    await until(lambda: pids.exists() and pids.read_text())
    shell, child = map(int, pids.read_text().split())
    command.cancel()
    await asyncio.wait([command], timeout=LIMIT_S)
    os.kill(child, signal.SIGKILL)

    assert command.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(shell, 0)


async def test_command_that_fails_is_reported_with_its_last_line(trace: Trace) -> None:
    action = RunCommand.model_validate({"command": ["sh", "-c", "echo one >&2; echo two >&2; sleep 30 & exit 3"]})

    with pytest.raises(HostError, match=r"^runCommand: sh ended with status 3: two$"):
        await run_command(action, trace)


class Watcher:
    """A program in a view of a node that says what it sees there, each time it is asked."""

    def __init__(self, node: SimNode) -> None:
        (node.directory / "device-plugins").mkdir()
        view = node.view({SOCKETS: node.directory / "device-plugins"})
        argv = sandboxed(["sh", "-c", "while read paths; do ls -d $paths 2>/dev/null; echo .; done"], view)
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.sees("/")

    def sees(self, *paths: str) -> list[str]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(*paths, file=self.process.stdin, flush=True)
        return [line.rstrip() for line in iter(self.process.stdout.readline, ".\n") if line]


@pytest.fixture
def can_see() -> None:
    try:
        check_sandbox()
    except HostError as error:
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.usefixtures("can_see")
def test_program_in_a_view_sees_what_changes_wherever_it_lies(tmp_path: Path, trace: Trace) -> None:
    files = ["/etc/skt/burrow/g1", "/dev/sktFAKE0", {"path": "/etc/skt.yaml", "content": "a"}]
    files.append({"path": "/etc/skt-link", "link": "/etc/skt.yaml"})
    spec = NodeSpec.model_validate({"name": "node-1", "files": files})
    node = SimNode(spec, tmp_path / "node-1", changed=["/usr/local/skt-new/file"])
    node.create()
    watcher = Watcher(node)
    with watcher.process:
        own = ("/etc/skt/burrow/g1", "/dev/sktFAKE0", "/etc/skt.yaml", "/etc/skt-link")
        beginning = (*own, "/etc/passwd", "/dev/null")
        assert watcher.sees(*beginning) == sorted(beginning)

        new = ("/etc/skt/g2", "/etc/skt-g3", "/dev/sktFAKE1", "/usr/local/skt-new/file", "/var/run/skt")
        for path in new:
            change(node, trace, CreateFile(path=path))
        assert watcher.sees(*new) == sorted(new)

        for action in (
            *(RemoveFile(path=path) for path in ("/etc/skt/g2", "/dev/sktFAKE0", "/dev/sktFAKE1", "/etc/skt-g3")),
            MoveFile(path="/etc/skt.yaml", to="/etc/skt/moved.yaml"),
            RemoveFolder(path="/etc/skt/burrow"),
            CreateFolder(path="/etc/skt-folder"),
        ):
            change(node, trace, action)
        left = ["/etc/skt-folder", "/etc/skt/moved.yaml"]
        assert watcher.sees(*new[:3], *beginning[:3], *left) == left
        assert watcher.process.stdin is not None
        watcher.process.stdin.close()
    assert not [path for path in ("/etc/skt", "/dev/sktFAKE1", "/usr/local/skt-new") if Path(path).exists()]
