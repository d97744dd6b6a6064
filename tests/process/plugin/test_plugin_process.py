"""Fed in: real plugin processes, wrong and right command lines; observed: stderr, exit status, what stays behind."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakegpu import Machine
from plugin.cli import main
from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.client import RpcError
from simkubelet.apis.grpcwire.messages import Code
from tests.support.patience import LIMIT_S, PROGRAM_LIMIT_S

_ROOT = Path(__file__).parents[3]
_STUB = ("--socket", "stub.sock", "--device", "a")


@pytest.fixture
def gopher_arguments(kubelet_dir: Path, tmp_path: Path) -> tuple[str, ...]:
    """A node with one gopher, g1."""
    (tmp_path / "etc/gophers").mkdir(parents=True)
    (tmp_path / "etc/gophers/g1").touch()
    return ("gopher", "--kubelet-dir", str(kubelet_dir), "--host-root", str(tmp_path))


_LOADED = """
import sys
import plugin.nvidia.command, plugin.nvidia.start
print(*[name for name in sys.modules if name.startswith(("plugin.nvidia.cdi.", "simkubelet.apis.cdi"))])
import plugin.nvidia.cdi.writing
print("pydantic" in sys.modules)
"""


def test_nvidia_loads_cdi_modules_only_to_write_specifications() -> None:
    loaded = subprocess.check_output([sys.executable, "-c", _LOADED], cwd=_ROOT, text=True, timeout=PROGRAM_LIMIT_S)

    assert loaded == "\nFalse\n"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
async def test_signal_stops_gopher_cleanly(
    run_plugin: Any, kubelet: Any, kubelet_dir: Path, gopher_arguments: tuple[str, ...], number: signal.Signals
) -> None:
    async with run_plugin(*gopher_arguments) as process:
        await kubelet.registration()
        process.signal(number)

        assert await process.exit_status() == 0

    assert not (kubelet_dir / "gopher.sock").exists()


@pytest.mark.slow
async def test_gopher_exits_with_zero_when_the_kubelet_is_new(
    run_plugin: Any, kubelet: Any, kubelet_dir: Path, gopher_arguments: tuple[str, ...]
) -> None:
    async with run_plugin(*gopher_arguments) as process:
        request = await kubelet.registration()
        await kubelet.stop()
        await kubelet.start()

        assert await process.exit_status() == 0

    assert (request.resource_name, request.endpoint) == ("lixueduan.com/gopher", "gopher.sock")
    assert not (kubelet_dir / "gopher.sock").exists()


@pytest.mark.slow
def test_gopher_without_its_directory_says_so_and_exits_with_one(kubelet_dir: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "plugin", "gopher", "--kubelet-dir", kubelet_dir, "--host-root", tmp_path],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if line.startswith("E")]
    assert len(errors) == 1
    assert errors[0].endswith(
        f"] cannot watch the gopher directory {tmp_path}/etc/gophers: No such file or directory; "
        "make it or name one with --directory"
    )
    assert not list(kubelet_dir.iterdir())


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine.create(tmp_path / "machine", profile="h100-80gb", count=3, seed="plugin")
    yield made
    made.destroy()


@pytest.mark.slow
async def test_nvidia_on_fake_gpus_from_registration_to_restart(
    run_plugin: Any, kubelet: Any, kubelet_dir: Path, machine: Machine, tmp_path: Path
) -> None:
    (tmp_path / "sys").symlink_to(machine.sys)
    uuids = [gpu.uuid for gpu in machine.gpus]
    arguments = ("nvidia", "--kubelet-dir", str(kubelet_dir), "--host-root", str(tmp_path), "--gds-enabled=false")

    async with run_plugin(*arguments, **machine.environment()) as process, asyncio.timeout(LIMIT_S):
        request = await kubelet.registration()
        async with kubelet.plugin("nvidia-gpu.sock") as stub:
            stream = stub.ListAndWatch(api.Empty())
            first = await stream.read()
            machine.fail(0, xid=13)
            machine.fail(1, xid=79)
            second = await stream.read()
            answer = await stub.Allocate(
                api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=uuids[1:])])
            )
            process.signal(signal.SIGHUP)
            await kubelet.registration()
        third = await kubelet.first_list("nvidia-gpu.sock")
        process.signal(signal.SIGTERM)
        assert await process.exit_status() == 0

    assert request.options.get_preferred_allocation_available
    assert [(device.ID, device.health) for device in first.devices] == [(uuid, "Healthy") for uuid in uuids]
    assert [device.topology.nodes[0].ID for device in first.devices] == [gpu.numa_node for gpu in machine.gpus]
    assert [device.health for device in second.devices] == ["Healthy", "Unhealthy", "Healthy"]
    assert dict(answer.container_responses[0].envs) == {
        "NVIDIA_VISIBLE_DEVICES": ",".join(uuids[1:]),
        "NVIDIA_GDRCOPY": "enabled",
        "NVIDIA_MOFED": "enabled",
    }
    assert third == list(first.devices)
    assert not (kubelet_dir / "nvidia-gpu.sock").exists()


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        pytest.param(["gofer"], {}, "No such command 'gofer' … see `plugin --help`", id="unknown plugin"),
        pytest.param(
            ["gopher", "--dir", "x"], {}, "No such option … --dir … see `plugin gopher --help`", id="unknown option"
        ),
        pytest.param(["gopher", "--log-level", "loud"], {}, "Invalid value for '--log-level'", id="unknown level"),
        pytest.param(
            ["gopher", "--host-root", "/nowhere"], {}, "Directory '/nowhere' does not exist", id="no host root"
        ),
        pytest.param(
            ["gopher", "--kubelet-dir", "/nowhere"],
            {},
            "cannot watch /nowhere: no such file or directory",
            id="no folder",
        ),
        pytest.param(
            ["nvidia", "--gds-enabled=maybe"],
            {},
            'invalid boolean value "maybe" for -gds-enabled: parse error',
            id="no boolean",
        ),
        pytest.param(
            ["nvidia"],
            {"GDS_ENABLED": "maybe"},
            'could not parse "maybe" as bool value from environment variable "GDS_ENABLED" for flag gds-enabled: '
            'strconv.ParseBool: parsing "maybe": invalid syntax',
            id="no boolean in a variable",
        ),
    ],
)
def test_wrong_use_is_one_line_and_exit_status_two(
    arguments: list[str],
    environment: dict[str, str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    status = main(arguments)

    said = capsys.readouterr()
    assert status == 2
    assert not said.out
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith("error: ")
    assert all(part in said.err for part in message.split(" … "))


def test_help_names_the_variables_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nvidia", "--help"]) == 0

    said = " ".join(capsys.readouterr().out.split())
    for text in ("nvidia.com/gpu", "FAIL_ON_INIT_ERROR", "DP_DISABLE_HEALTHCHECKS", "default: uuid", "Examples:"):
        assert text in said


@pytest.mark.slow
async def test_stub_exits_with_1_when_its_stream_is_lost(run_plugin: Any, kubelet: Any, kubelet_dir: Path) -> None:
    arguments = ("stub", "--kubelet-dir", kubelet_dir, *_STUB, "--on-lost-stream", "exit")
    async with run_plugin(*arguments) as process, asyncio.timeout(LIMIT_S):
        await kubelet.registration()
        await kubelet.first_list("stub.sock")

        assert await process.exit_status() == 1

    assert not (kubelet_dir / "stub.sock").exists()


@pytest.mark.slow
async def test_stub_that_crashes_ends_with_2_in_place_of_an_answer(
    kubelet: Any, kubelet_dir: Path, tmp_path: Path
) -> None:
    order = tmp_path / "order"
    order.write_text('{"command": "answer", "rpc": "Allocate", "crash": true}\n')
    with order.open() as orders, (tmp_path / "log").open("w") as log:
        options = ("--kubelet-dir", str(kubelet_dir), *_STUB)
        command = [sys.executable, "-m", "plugin", "stub", *options]
        process = await asyncio.create_subprocess_exec(*command, cwd=_ROOT, stdin=orders, stdout=log, stderr=log)
    async with asyncio.timeout(LIMIT_S):
        await kubelet.registration()
        async with kubelet.plugin("stub.sock") as stub:
            with pytest.raises(RpcError, match="EOF") as lost:
                await stub.Allocate(
                    api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=["a"])])
                )

        assert await process.wait() == 2

    assert lost.value.code == Code.UNAVAILABLE
