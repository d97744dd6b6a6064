"""Fed in: real processes of the plugins of AMD and Iluvatar; observed: exit status, error, what stays behind."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from fakegpu.vendors.amd.machine import write_amd
from fakegpu.vendors.amd.model import load_amd_profile
from fakegpu.vendors.iluvatar import write_iluvatar
from plugin.cli import main
from simkubelet.apis import deviceplugin as api
from tests.support.grpc_peers import DEVICE_PLUGIN, Calls, calls
from tests.support.patience import until

_ROOT = Path(__file__).parents[3]


def _stub(socket: Path) -> AbstractAsyncContextManager[Calls]:
    return calls(socket, DEVICE_PLUGIN)


@pytest.fixture
def amd(kubelet_dir: Path, tmp_path: Path) -> tuple[str | Path, ...]:
    """A node with two GPUs in partitions."""
    write_amd(tmp_path, load_amd_profile("mi300x"), 2, compute="dpx")
    return ("amd", "--kubelet-dir", kubelet_dir, "--host-root", tmp_path)


@pytest.fixture
def iluvatar(kubelet_dir: Path, tmp_path: Path) -> tuple[str | Path, ...]:
    """A node with two chips."""
    write_iluvatar(tmp_path, 2)
    (tmp_path / "ix-config").write_text("resourceName: iluvatar.com/gpu\n")
    folders = ("--kubelet-dir", kubelet_dir, "--host-root", tmp_path)
    return ("iluvatar", *folders, "--config-file", tmp_path / "ix-config")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
async def test_signal_ends_amd_and_its_socket_stays(
    run_plugin: Any, kubelet: Any, kubelet_dir: Path, amd: tuple[str | Path, ...], number: signal.Signals
) -> None:
    async with run_plugin(*amd) as process:
        request = await kubelet.registration()
        process.signal(number)

        assert await process.exit_status() == 0

    assert (request.resource_name, request.endpoint) == ("amd.com/gpu", "amd.com_gpu")
    assert request.options.get_preferred_allocation_available
    assert (kubelet_dir / "amd.com_gpu").is_socket()


@pytest.mark.slow
async def test_hangup_kills_amd(run_plugin: Any, kubelet: Any, amd: tuple[str | Path, ...]) -> None:
    async with run_plugin(*amd) as process:
        await kubelet.registration()
        process.signal(signal.SIGHUP)

        assert await process.exit_status() == 2


@pytest.mark.slow
async def test_end_of_a_stream_ends_amd_with_1(
    run_plugin: Any, kubelet: Any, kubelet_dir: Path, amd: tuple[str | Path, ...]
) -> None:
    async with run_plugin(*amd, "-resource_naming_strategy", "mixed") as process:
        request = await kubelet.registration()
        async with _stub(kubelet_dir / request.endpoint) as stub:
            lists = stub.ListAndWatch(api.Empty())
            first = await lists.read()
            await lists.cancel()

            assert await process.exit_status() == 1

    assert (request.resource_name, len(first.devices)) == ("amd.com/dpx_nps1", 4)


@pytest.mark.slow
async def test_amd_is_up_after_three_refusals_and_comes_with_the_next_kubelet(
    run_plugin: Any, kubelet: Any, amd: tuple[str | Path, ...]
) -> None:
    kubelet.refusal = "not now"
    async with run_plugin(*amd) as process:
        for _ in range(3):
            await kubelet.registration()
        kubelet.refusal = None
        await kubelet.stop()
        await kubelet.start()

        assert (await kubelet.registration()).resource_name == "amd.com/gpu"
        assert process.runs


def test_amd_without_its_driver_ends_with_2(
    kubelet_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sys/class/kfd").mkdir(parents=True)

    assert main(["amd", "--kubelet-dir", str(kubelet_dir), "--host-root", str(tmp_path)]) == 2
    assert "amdgpu driver unavailable. exiting with exit code 2." in capsys.readouterr().err


def test_unknown_naming_strategy_ends_amd_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["amd", "-resource_naming_strategy=some"]) == 1
    assert capsys.readouterr().err == "error: invalid resource naming strategy: some\n"


def test_pulse_is_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["amd", "-pulse", "often"]) == 2
    assert "'often' is not a valid integer" in capsys.readouterr().err


@pytest.mark.slow
async def test_hangup_means_nothing_to_iluvatar_and_a_signal_ends_it(
    run_plugin: Any, kubelet: Any, kubelet_dir: Path, iluvatar: tuple[str | Path, ...]
) -> None:
    async with run_plugin(*iluvatar) as process:
        request = await kubelet.registration()
        process.signal(signal.SIGHUP)
        async with _stub(kubelet_dir / request.endpoint) as stub:
            assert (await stub.GetDevicePluginOptions(api.Empty())).get_preferred_allocation_available
        process.signal(signal.SIGTERM)

        assert await process.exit_status() == 0

    assert (request.resource_name, request.endpoint) == ("iluvatar.com/gpu", "iluvatar-gpu.sock")
    assert not (kubelet_dir / "iluvatar-gpu.sock").exists()


@pytest.mark.slow
async def test_iluvatar_is_away_while_the_kubelet_is(
    run_plugin: Any, kubelet: Any, kubelet_dir: Path, iluvatar: tuple[str | Path, ...]
) -> None:
    async with run_plugin(*iluvatar) as process:
        await kubelet.registration()
        await kubelet.stop()
        (kubelet_dir / api.KUBELET_SOCKET_NAME).unlink(missing_ok=True)
        await until(lambda: not (kubelet_dir / "iluvatar-gpu.sock").exists())
        await kubelet.start()

        await kubelet.registration()
        assert process.runs


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
async def test_refused_original_hangs_whatever_the_signal(
    run_plugin: Any, kubelet: Any, kubelet_dir: Path, iluvatar: tuple[str | Path, ...], number: signal.Signals
) -> None:
    kubelet.refusal = "not now"
    async with run_plugin(*iluvatar, "--quirks", "original") as process:
        await kubelet.registration()
        await process.logged("register to kubelet failed")
        await until(lambda: _ignores(process.pid, number))
        process.signal(number)
        kubelet.refusal = None
        await kubelet.stop()
        await kubelet.start()

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await kubelet.registration()
        assert process.runs


def _ignores(pid: int, number: signal.Signals) -> bool:
    """Whether a process ignores a signal, as the kernel tells."""
    status = Path(f"/proc/{pid}/status").read_text()
    ignored = next(line for line in status.splitlines() if line.startswith("SigIgn:"))
    return bool(int(ignored.split()[1], 16) >> (number - 1) & 1)


@pytest.mark.slow
async def test_refused_iluvatar_ends_with_1(run_plugin: Any, kubelet: Any, iluvatar: tuple[str | Path, ...]) -> None:
    kubelet.refusal = "not now"
    async with run_plugin(*iluvatar) as process:
        assert await process.exit_status() == 1


def test_iluvatar_without_its_configuration(
    kubelet_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "ix-config"

    assert main(["iluvatar", "--kubelet-dir", str(kubelet_dir), "--config-file", str(missing)]) == 1
    assert capsys.readouterr().err == (
        f"error: unable to load config: error opening config file: open {missing}: no such file or directory\n"
    )


def test_variables_go_before_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ix-config").write_text("flags: {usevolcano: false}")
    monkeypatch.setitem(os.environ, "USE_VOLCANO", "true")

    assert main(["iluvatar", "--config-file", str(tmp_path / "ix-config")]) == 2
    assert "not supported here: usevolcano" in capsys.readouterr().err
