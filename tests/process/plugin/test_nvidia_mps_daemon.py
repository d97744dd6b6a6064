"""Fed in: shared GPUs and a stand-in for MPS's control program; observed: its input, and which files exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plugin.command.options import CommonOptions
from plugin.framework import DeviceID, ResourceName
from plugin.nvidia.config.flags import GivenSettings
from plugin.nvidia.discovery.resources import NvidiaDevice, NvidiaResource
from plugin.nvidia.mps.daemon import MpsConfigurationError, MpsControlError, MpsDaemon, check_replicas, run_daemons
from plugin.preference import replica_id

_GIB = 1 << 30


def _resource(replicas: int, *memory_bytes: int, capability: str = "7.5") -> NvidiaResource:
    devices = [
        NvidiaDevice(
            DeviceID(replica_id(f"GPU-{index}", number)),
            f"GPU-{index}",
            str(index),
            (),
            None,
            total_bytes,
            capability,
            replicas,
        )
        for index, total_bytes in enumerate(memory_bytes)
        for number in range(replicas)
    ]
    return NvidiaResource.of(ResourceName("nvidia.com/gpu"), devices)


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The commands that the control program got: its arguments, then its input, a line for each time."""
    program = tmp_path / "bin" / "nvidia-cuda-mps-control"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$* $(/bin/cat)" >>{tmp_path}/commands\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return tmp_path / "commands"


def _daemon(root: Path, resource: NvidiaResource) -> MpsDaemon:
    return MpsDaemon(resource, lambda path: root / path.relative_to("/"))


def test_each_client_gets_its_share_of_memory_and_threads(tmp_path: Path, commands: Path) -> None:
    _daemon(tmp_path, _resource(3, 10 * _GIB, 0, 4 * _GIB)).start()

    assert [line.strip() for line in commands.read_text().splitlines()] == [
        "-d",
        "set_default_device_pinned_mem_limit 0 3413M",
        "set_default_device_pinned_mem_limit 2 1365M",
        "set_default_active_thread_percentage 33",
    ]
    folder = tmp_path / "mps/nvidia.com/gpu"
    assert {path.name for path in folder.iterdir()} == {"pipe", "log", ".started"}


def test_stopped_daemon_leaves_its_pipe_folder_alone(tmp_path: Path, commands: Path) -> None:
    daemon = _daemon(tmp_path, _resource(2, _GIB))
    daemon.start()

    daemon.stop()

    assert commands.read_text().splitlines()[-1].strip() == "quit"
    assert [path.name for path in (tmp_path / "mps/nvidia.com/gpu").iterdir()] == ["pipe"]


def test_missing_control_program_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(MpsControlError, match="executable file not found"):
        _daemon(tmp_path, _resource(2, _GIB)).start()


@pytest.mark.parametrize(("capability", "most"), [("7.0", 16), ("7.5", 48), ("10.0", 48)])
def test_gpu_has_so_many_clients_and_no_more(capability: str, most: int) -> None:
    check_replicas(_resource(most, _GIB, capability=capability))
    with pytest.raises(MpsConfigurationError, match=f"maximum allowed replicas exceeded: {most + 1} > {most}$"):
        check_replicas(_resource(most + 1, _GIB, capability=capability))


def test_settings_that_cannot_be_had_end_the_program(make_nvml: Any, tmp_path: Path, commands: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("sharing: {mps: {resources: [{name: gpu, replicas: 49}]}}")
    options = CommonOptions(kubelet_dir=tmp_path, host_root=tmp_path, log_level="info")

    assert run_daemons(make_nvml(1), GivenSettings({}, str(file)), options) == 1
    assert not commands.exists()
