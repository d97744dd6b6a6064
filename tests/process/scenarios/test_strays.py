"""What a plugin starts ends with it, by each way of a view, whatever that makes of itself."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from scenarios.backends.world import family, marked_processes
from scenarios.backends.world.child import Child, PluginCommand, spawn_process
from scenarios.backends.world.marked_processes import Key
from simkubelet._internal.bounds import version_of_cgroups
from simkubelet._internal.cgroups import Groups
from tests.support.patience import until
from tests.support.strays import PROGRAM, STRAYS, TRACERS
from tests.support.views import WAYS, Node, node_of

PYTHON = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin") or "python3"


class Plugin:
    """A plugin with strays, which all can write to `output`."""

    def __init__(self, node: Node) -> None:
        self.pipe = node.folder / "pipe"
        self._node = node
        self._output, self._input = os.pipe()
        os.set_blocking(self._output, False)
        os.mkfifo(self.pipe, 0o666)
        self.said = ""

    async def start(self, *strays: str) -> Child:
        argv = self._node.argv([PYTHON, "-I", "-S", "-c", PROGRAM, ",".join(strays), str(self.pipe)])
        log = self._node.folder / "log"
        command = PluginCommand("mine", "node-1", tuple(argv), dict(os.environ), log, folder=Path("/"))
        with os.fdopen(self._input, "wb") as output:
            child = await spawn_process(command, output)
        await until(lambda: self._is_over() or self.said.count("ready") >= len(strays), lambda: self.said)
        return child

    def _is_over(self) -> bool:
        """Read what they have said; whether there are none of them."""
        with suppress(BlockingIOError):
            while data := os.read(self._output, 1 << 16):
                self.said += data.decode()
            return True
        return False

    async def check_all_have_ended(self) -> None:
        await until(self._is_over, lambda: f"a stray stays:\n{self.said}")
        assert "outlived" not in self.said

    def close(self) -> None:
        os.close(self._output)


def zombies() -> set[int]:
    """Ended children of this process."""
    found = set[int]()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(") ")[2].split() if entry.name.isdigit() else []
            if fields[:2] == ["Z", str(os.getpid())]:
                found.add(int(entry.name))
    return found


@pytest.fixture(params=["own with a cgroup", *WAYS])
def plugin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugin]:
    kind, has_cgroup, _ = request.param.partition(" with a cgroup")
    if not has_cgroup:
        monkeypatch.setattr(Groups, "make", lambda *_: None)
    before = zombies()
    with node_of(kind) as node:
        plugin = Plugin(node)
        yield plugin
        plugin.close()
    assert zombies() <= before


@pytest.mark.parametrize("strays", [STRAYS, *((tracer,) for tracer in TRACERS)], ids=lambda strays: strays[-1])
async def test_strays_end_with_a_plugin_that_is_killed(plugin: Plugin, strays: tuple[str, ...]) -> None:
    child = await plugin.start(*strays)

    child.kill()
    await child.kill_all()

    assert await child.wait() == -signal.SIGKILL
    await plugin.check_all_have_ended()


@pytest.mark.parametrize("strays", [STRAYS, ("tracer",)], ids=["strays", "tracer"])
async def test_strays_end_with_a_plugin_that_ends_by_itself(plugin: Plugin, strays: tuple[str, ...]) -> None:
    child = await plugin.start(*strays)

    os.close(os.open(plugin.pipe, os.O_WRONLY))

    assert await child.wait() == 3
    await child.kill_all()
    await plugin.check_all_have_ended()


FORKS = """
import os, sys
for _ in range(4):
    if not os.fork() and sys.argv[1:]:
        os.setsid()
os.write(1, b"ready.")
while True:
    try:
        if not os.fork():
            os._exit(0)
        os.wait()
    except OSError:
        pass
"""
"""Sixteen processes that fork all the time, with an argument in sessions of their own."""


@pytest.mark.parametrize(
    ("words", "is_asked"),
    [(("leave",), True), (("leave",), False), ((), False)],
    ids=["in a cgroup, asked to end", "in a cgroup, killed", "in a session, killed"],
)
async def test_what_forks_all_the_time_ends_before_a_look_at_each_process(
    words: tuple[str, ...], is_asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not words:
        monkeypatch.setattr(Groups, "make", lambda *_: None)
    elif not version_of_cgroups():
        pytest.skip("this process can make no cgroups")
    command = PluginCommand("mine", "node-1", (PYTHON, "-c", FORKS, *words), dict(os.environ), tmp_path / "log")
    output, theirs = os.pipe()
    with os.fdopen(theirs, "wb") as log, os.fdopen(output, "rb", buffering=0) as said:
        child = await spawn_process(command, log)
        log.close()
        os.set_blocking(output, False)
        ready = bytearray()
        await until(lambda: ready.extend(said.read() or b"") or ready.count(b".") == 16)
        found = marked_processes.found

        async def look() -> Mapping[Key, list[int]]:
            await until(lambda: said.read() == b"")
            return await found()

        for module in (family, marked_processes):
            monkeypatch.setattr(module, "found", look)
        if is_asked:
            await child.terminate_all()
        await child.kill_all()


DEBUGGER = """
import ctypes, signal, sys
assert not ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), 0, 1 << 6 if sys.argv[2:] else 0)
print("ready", flush=True)
signal.pause()
"""
"""Traces a process, with an argument also its exit, and looks at nothing that happens to it."""


@pytest.mark.parametrize(
    ("is_killed", "options"),
    [(True, ()), (True, ("exit",)), (False, ())],
    ids=["killed", "killed, also its exit", "ends by itself"],
)
async def test_debugger_of_the_user_stays_and_is_named(
    options: tuple[str, ...],
    is_killed: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(family, "_TRACED_LIMIT_S", 0.0)
    pipe, log = tmp_path / "pipe", tmp_path / "log"
    os.mkfifo(pipe)
    command = PluginCommand("mine", "node-1", ("sh", "-c", f": <{pipe}; exit 3"), dict(os.environ), log)
    before = zombies()
    with log.open("wb") as output:
        child = await spawn_process(command, output)
    pid = child._process.pid  # type: ignore[attr-defined]
    argv = [sys.executable, "-c", DEBUGGER, str(pid), *options]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as debugger:  # noqa: ASYNC220  # its end is looked at
        assert debugger.stdout is not None
        assert debugger.stdout.readline() == b"ready\n"
        if is_killed:
            child.kill()
            await child.kill_all()
        else:
            os.close(os.open(pipe, os.O_WRONLY))

        assert await child.wait() == (-signal.SIGKILL if is_killed else 3)

        assert debugger.poll() is None
        assert f"process {pid} does not end; these trace it: {debugger.pid} (" in caplog.text
        debugger.kill()
    await until(lambda: pid in zombies())
    # Its end is taken with the start of the next one.
    with log.open("wb") as output:
        await (await spawn_process(replace(command, argv=("true",)), output)).kill_all()
    assert zombies() <= before
