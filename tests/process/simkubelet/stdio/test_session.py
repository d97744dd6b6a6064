"""A session of the line protocol with a plugin, and the program's beginning and end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from simkubelet.apis import deviceplugin as api
from simkubelet.stdio.__main__ import COMMANDS, DRA_COMMANDS
from tests.support.node import RESOURCE, FakePlugin
from tests.support.oracle import OracleProcess
from tests.support.patience import LIMIT_S, eventually

COMMAND = [sys.executable, "-m", "simkubelet.stdio"]


@pytest.fixture
async def kubelet(tmp_path: Path) -> AsyncIterator[OracleProcess]:
    async with OracleProcess(COMMAND, tmp_path) as program:
        yield program


@pytest.fixture
async def plugin(tmp_path: Path) -> AsyncIterator[FakePlugin]:
    stub = FakePlugin(tmp_path)
    stub.list(["d1", "d2"])
    yield stub
    await stub.stop()


async def start(kubelet: OracleProcess, plugin: FakePlugin) -> None:
    """A manager that knows the plugin's two devices and a pod `u1` that wants one."""
    assert (await kubelet.ask(cmd="start", sources_ready=True))["ok"]
    await plugin.serve()
    await plugin.register()
    answer = await kubelet.ask(cmd="wait_capacity", resource=RESOURCE, allocatable=2, timeout_ms=10_000)
    assert answer["ok"], answer
    await kubelet.ask(cmd="add_pod", uid="u1", containers=[{"name": "c", "limits": {RESOURCE: 1}}])


async def test_pod_is_given_what_the_plugin_answers(kubelet: OracleProcess, plugin: FakePlugin):
    await start(kubelet, plugin)

    assert (await kubelet.ask(cmd="admit", pod="u1"))["ok"]

    answer = await kubelet.ask(cmd="run_options", pod="u1", container="c")
    (device,) = (await kubelet.ask(cmd="devices", pod="u1", container="c"))["devices"][RESOURCE]
    assert answer["options"]["envs"] == {"STUB": device["id"]}


async def test_pod_that_wants_too_much_is_refused_in_the_kubelets_words(kubelet: OracleProcess, plugin: FakePlugin):
    await start(kubelet, plugin)
    await kubelet.ask(cmd="add_pod", uid="u2", containers=[{"name": "c", "limits": {RESOURCE: 3}}])

    answer = await kubelet.ask(cmd="admit", pod="u2")

    error = f"requested number of devices unavailable for {RESOURCE}. Requested: 3, Available: 2"
    assert answer["error"] == error
    assert answer["message"] == f"Allocate failed due to {error}, which is unexpected"
    assert (answer["reason"], answer["container"]) == ("UnexpectedAdmissionError", "c")


async def test_pod_keeps_its_device_over_a_restart(kubelet: OracleProcess, plugin: FakePlugin):
    await start(kubelet, plugin)
    await kubelet.ask(cmd="admit", pod="u1")
    before = await kubelet.ask(cmd="devices", pod="u1", container="c")

    await kubelet.ask(cmd="restart")

    after = await kubelet.ask(cmd="devices", pod="u1", container="c")
    assert after["devices"] == before["devices"]
    assert (await kubelet.ask(cmd="capacity"))["capacity"] == {RESOURCE: 0}


@pytest.mark.parametrize(
    ("minor", "printed"),
    [
        pytest.param("1.33", "&AllocateResponse{ContainerResponses:[]*ContainerAllocateResponse{},}", id="1.33"),
        pytest.param("1.34", "", id="1.34"),
    ],
)
async def test_answer_without_containers_is_printed_as_by_its_minor(tmp_path: Path, minor: str, printed: str):
    plugin = FakePlugin(tmp_path)
    plugin.list(["d1", "d2"])
    plugin.allocate_answer = lambda request: api.AllocateResponse()
    async with OracleProcess([*COMMAND, "--kubelet-version", minor], tmp_path) as kubelet:
        try:
            await start(kubelet, plugin)
            answer = await kubelet.ask(cmd="allocate", pod="u1", container="c")
        finally:
            await plugin.stop()

    assert answer["error"] == f"no containers return in allocation response {printed}"


@pytest.mark.parametrize(("minor", "is_known"), [("1.30", False), ("1.31", True)])
async def test_gate_is_known_from_its_minor_on(tmp_path: Path, minor: str, is_known: bool):
    async with OracleProcess([*COMMAND, "--kubelet-version", minor], tmp_path) as kubelet:
        answer = await kubelet.ask(cmd="set_gate", name="ResourceHealthStatus", value=True)

    assert answer["ok"] is is_known
    assert is_known or answer["error"] == "unrecognized feature gate: ResourceHealthStatus"


async def test_killed_kubelet_leaves_its_socket_as_it_was(kubelet: OracleProcess, plugin: FakePlugin, tmp_path: Path):
    await start(kubelet, plugin)
    before = (tmp_path / "kubelet.sock").stat()

    await kubelet.ask(cmd="abandon")

    after = (tmp_path / "kubelet.sock").stat()
    assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)
    await plugin.until_no_stream()
    assert (await kubelet.ask(cmd="start"))["ok"]


async def test_stopped_kubelet_takes_its_socket_away(kubelet: OracleProcess, plugin: FakePlugin, tmp_path: Path):
    await start(kubelet, plugin)

    await kubelet.ask(cmd="stop")

    assert not (tmp_path / "kubelet.sock").exists()
    await plugin.until_no_stream()


async def test_manager_runs_only_once(kubelet: OracleProcess):
    await kubelet.ask(cmd="start")

    answer = await kubelet.ask(cmd="start")

    assert answer["error"] == "a manager runs already: stop it first, or restart"


async def test_command_in_the_background_answers_when_it_is_awaited(kubelet: OracleProcess, plugin: FakePlugin):
    await start(kubelet, plugin)
    waiting: dict[str, Any] = {"cmd": "wait_capacity", "resource": RESOURCE, "allocatable": 1, "timeout_ms": 10_000}

    begun = await kubelet.ask(**waiting, **{"async": "w"})
    early = await kubelet.ask(cmd="await", name="w", timeout_ms=1)
    plugin.list(["d1"], ["d2"])
    late = await kubelet.ask(cmd="await", name="w")

    assert (begun["ok"], begun["async"]) == (True, "w")
    assert early["error"] == "'w' has no answer yet, after 0.001 s"
    assert late["answer"]["allocatable"] == {RESOURCE: 1}


async def test_capacity_that_does_not_come_is_an_error_with_what_there_is(kubelet: OracleProcess, plugin: FakePlugin):
    await start(kubelet, plugin)

    answer = await kubelet.ask(cmd="wait_capacity", resource=RESOURCE, allocatable=3, timeout_ms=1)

    assert answer["error"] == "not seen within 1 ms"
    assert answer["allocatable"] == {RESOURCE: 2}


async def test_folder_that_is_gone_is_an_error(tmp_path: Path):
    folder = tmp_path / "dp"
    async with OracleProcess(COMMAND, folder) as kubelet:
        await kubelet.ask(cmd="now")
        folder.rmdir()

        answer = await kubelet.ask(cmd="write_checkpoint", text="{}")

        assert answer["error"] == f"{folder}/kubelet_internal_checkpoint: No such file or directory"
        assert (await kubelet.ask(cmd="start"))["error"].startswith(f"{folder}")


def run(*arguments: str, told: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *arguments], input=told, capture_output=True, check=False, timeout=LIMIT_S)


def test_end_of_the_input_is_the_end_of_the_program(tmp_path: Path):
    done = run("--dir", str(tmp_path), told=b'{"cmd": "start"}\n{"cmd": "now"}')

    assert (done.returncode, done.stderr) == (0, b"")
    assert [json.loads(line)["ok"] for line in done.stdout.splitlines()] == [True, True]
    assert not (tmp_path / "kubelet.sock").exists()


def test_signal_ends_the_program_and_takes_the_socket_away(tmp_path: Path):
    with subprocess.Popen([*COMMAND, "--dir", str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(b'{"cmd": "start"}\n')
        program.stdin.flush()
        assert json.loads(program.stdout.readline())["ok"]

        program.send_signal(signal.SIGTERM)

        assert program.wait(LIMIT_S) == 0
    assert not (tmp_path / "kubelet.sock").exists()


def test_signal_ends_the_program_whose_answers_nobody_reads(tmp_path: Path):
    with subprocess.Popen([*COMMAND, "--dir", str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(b'{"cmd": "now"}\n')
        program.stdin.flush()
        assert program.stdout.readline()
        os.set_blocking(program.stdin.fileno(), False)
        eventually(lambda: not _takes_more(program.stdin.fileno()))

        program.send_signal(signal.SIGTERM)

        assert program.wait(LIMIT_S) == 0


def _takes_more(descriptor: int) -> bool:
    """Whether a program takes any commands within a moment in which it could."""
    began, taken = time.monotonic(), False
    while time.monotonic() - began < 0.5:
        with contextlib.suppress(BlockingIOError):
            taken = os.write(descriptor, b'{"cmd": "now"}\n' * 100) > 0 or taken
    return taken


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param(["--kubelet-version", "1.34"], "Missing option '--dir'", id="no folder"),
        pytest.param(["--dir", "{tmp}/file"], "'{tmp}/file' is a file", id="a file"),
        pytest.param(["--dir", "{tmp}/" + "x" * 108], "a socket path holds 107 bytes", id="too long"),
        pytest.param(
            ["--dir", "{tmp}", "--kubelet-version", "1.5"], "kubernetes version '1.5' is not simulated", id="version"
        ),
        pytest.param(
            ["--dir", "{tmp}", "--kubelet-version", "1.32"],
            "{tmp}/file: a kubelet v1.32.13 removes this file when it starts; choose a folder for plugins",
            id="files of the user",
        ),
        pytest.param(["--dir", "{tmp}", "--manager", "cpu"], "'cpu' is not one of 'devices', 'dra'", id="manager"),
        pytest.param(
            ["--dir", "{tmp}", "--manager", "dra", "--kubelet-version", "1.31"],
            "the DRA manager of Kubernetes 1.31 is not simulated; choose 1.32 or newer",
            id="no DRA manager",
        ),
        pytest.param(["--dir", "{tmp}", "--verbose"], "No such option '--verbose'", id="unknown option"),
    ],
)
def test_command_line_that_cannot_be_is_one_line_and_exit_2(tmp_path: Path, arguments: list[str], error: str):
    (tmp_path / "file").touch()

    done = run(*(argument.replace("{tmp}", str(tmp_path)) for argument in arguments))

    said = done.stderr.decode()
    assert done.returncode == 2
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert error.replace("{tmp}", str(tmp_path)) in said


def test_help_names_every_command():
    said = run("--help").stdout.decode()

    for command in (*COMMANDS, *DRA_COMMANDS, "await"):
        assert f"\n  {command}" in said, command


@pytest.mark.parametrize(
    ("streams", "status", "said"),
    [
        (">/dev/full", 3, "error: output: No space left on device\n"),
        ("0>unread", 2, "error: input: Bad file descriptor\n"),
        (">&-", 0, ""),
        ("<&-", 0, ""),
        ("<&- >&- 2>&-", 0, ""),
    ],
)
def test_streams_that_are_closed_or_full_are_no_traceback(streams: str, status: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "commands").write_text('{"cmd":"start"}\n')
    shell = ["sh", "-c", f'"$@" < commands {streams}', "sh", *COMMAND, "--dir", str(tmp_path / "d")]

    ran = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    assert (ran.returncode, ran.stderr) == (status, said)


def test_working_directory_that_is_gone_is_one_line(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    shell = ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", sys.executable, "-P", *COMMAND[1:], "--dir", "d"]

    ran = subprocess.run(shell, cwd=gone, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    assert (ran.returncode, ran.stderr) == (2, "error: --dir: the working directory is gone; change to another one\n")
