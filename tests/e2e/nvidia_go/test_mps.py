"""GPUs shared by MPS, beside NVIDIA's own plugin.

Fed in: a control daemon that answers, or none; observed: whether a plugin serves, what it says, what containers get.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fakegpu import Machine
from tests.support.nvidia_sides import NvidiaNode, SidePlugin

pytestmark = pytest.mark.nvidia_go

_CONFIG = "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
_ROOT = "--mps-root=/run/nvidia/mps"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine.create(tmp_path / "machine", "t4", 2, seed="mps")
    yield made
    made.close()


@pytest.fixture
def mps(tmp_path: Path) -> Path:
    """What the plugins see as ``/mps``."""
    (folder := tmp_path / "mps").mkdir()
    return folder


@contextmanager
def _daemon(machine: Machine, mps: Path) -> Iterator[None]:
    def control(*args: str, told: str = "") -> None:
        environment = {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"), "CUDA_MPS_LOG_DIRECTORY": str(folder / "log")}
        subprocess.run(
            [machine.directory / "bin" / "nvidia-cuda-mps-control", *args],
            input=told,
            env={**os.environ, **environment},
            text=True,
            check=True,
        )

    folder = mps / "nvidia.com" / "gpu"
    control("-d")
    try:
        yield
    finally:
        control(told="quit")


def _seen(plugin: SidePlugin) -> list[Any]:
    registrations = plugin.registered()
    ids = [device["ID"] for device in plugin.list_and_watch().next()]
    first, second = ids[0], ids[-1]
    asked = ([first], [first, second], [ids[1], first])
    return [registrations, ids, *(plugin.allocate(request) for request in asked)]


@pytest.mark.parametrize("strategy", ["envvar", "volume-mounts,envvar"])
def test_containers_get_the_way_to_the_daemon(nvidia_plugin: str, machine: Machine, mps: Path, strategy: str) -> None:
    args = [_ROOT, "--pass-device-specs", f"--device-list-strategy={strategy}"]
    with _daemon(machine, mps), NvidiaNode(machine, {"/mps": mps}) as node:
        ours, theirs = (_seen(plugin) for plugin in node.both(nvidia_plugin, *args, config=_CONFIG))

    assert ours == theirs


def test_plugin_without_daemon_waits_and_tries_again(nvidia_plugin: str, machine: Machine, mps: Path) -> None:
    with NvidiaNode(machine, {"/mps": mps}) as node:
        said = []
        for plugin in node.both(nvidia_plugin, _ROOT, config=_CONFIG):
            log = plugin.logged("Retrying in 30s")
            said.append([line.partition("] ")[2] for line in log.splitlines() if "Failed to start" in line])

    assert said[0] == said[1]
    assert "failed to send command to MPS daemon: exit status 1" in said[0][0]


def test_mig_devices_cannot_be_shared_so(nvidia_plugin: str, tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "h100", "h100-80gb", 1, seed="mps")
    machine.mig(0).create("1g.10gb")
    with NvidiaNode(machine) as node:
        ours, theirs = (
            (plugin.exit_status(), plugin.last_words)
            for plugin in node.both(nvidia_plugin, _ROOT, "--mig-strategy=single", config=_CONFIG)
        )

    assert ours == theirs
